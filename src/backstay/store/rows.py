"""Rows to records and back, the same for every backend.

A database keeps instants in a form of its own (``Shape``), and the text of JSON as it was encoded.
A value above the inline limit stays out of the row: the row holds a *claim check*, ``@`` and the
value's digest, and the value lies in the payload table under that digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from backstay.domain.access import Role, Token
from backstay.domain.alert import Alert, AlertKind, Delivery, NewAlert, Undelivered
from backstay.domain.audit import Act, Entry
from backstay.domain.control import Control, Forced, Subject
from backstay.domain.instants import micros
from backstay.domain.lease import Leader
from backstay.domain.request import BrokenOff, Reference, RequestStanding
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import MESSAGE_LENGTH_MAX, Failure, StepKind, StepRecord, UndoKind
from backstay.domain.task import NewTask, Request, Signal, TaskRecord
from backstay.store.base import InstanceRecord, Report, StepBegan, StepCompleted
from backstay.store.records import TaskNumber
from backstay.store.supervision import Round

Row = Sequence[Any]

#: The parameters of a query by their names.
Values = dict[str, Any]

#: What the audit trail keeps of something before or after it was changed; None: it was not there.
Facts = dict[str, Any] | None

#: (key of the task, digest) to value.
Payloads = Mapping[tuple[int, str], bytes]

LeanStep = TypeVar("LeanStep", StepBegan, StepCompleted)

CLAIM_CHECK: Final = b"@"  # No JSON text begins with it.

#: Where in a row of each kind a claim check may stand.
TASK_VALUES: Final = (5, 6)
STEP_VALUES: Final = (9, 10)
SIGNAL_VALUES: Final = (3,)

_encode: Final = msgspec.json.Encoder().encode
_decode_failure: Final = msgspec.json.Decoder(Failure).decode
_decode_attributes: Final = msgspec.json.Decoder(dict[str, str]).decode
_decode_runs: Final = msgspec.json.Decoder(tuple[tuple[str, int], ...]).decode
_decode_roles: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_report: Final = msgspec.json.Decoder(Report).decode
_decode_facts: Final = msgspec.json.Decoder(dict[str, Any]).decode

# The plain text of a word: SQLite's driver takes its time over anything that is not exactly a str or an int.
_word: Final = str.__str__

# Looking a word up is several times faster than calling the enum.
_TASK_STATES: Final = {state.value: state for state in TaskState}
_STEP_STATES: Final = {state.value: state for state in StepState}
_KINDS: Final = {kind.value: kind for kind in StepKind}
_UNDOS: Final = {kind.value: kind for kind in UndoKind}


def claim_check(value: bytes) -> bytes:
    return CLAIM_CHECK + hashlib.sha256(value).hexdigest().encode()


def claimed_values(rows: Iterable[Row], places: tuple[int, ...]) -> list[tuple[int, str]]:
    """The payloads that must be loaded to read ``rows``, whose first column is the key of the task."""
    return [
        (row[0], row[place][1:].decode())
        for row in rows
        for place in places
        if row[place] is not None and row[place][:1] == CLAIM_CHECK
    ]


def value_of(task_key: int, stored: bytes | None, payloads: Payloads) -> bytes | None:
    if stored is None or stored[:1] != CLAIM_CHECK:
        return stored
    return payloads[task_key, stored[1:].decode()]


def as_json(value: Any) -> str:
    return _encode(value).decode()


def _optional_json(value: Any) -> str | None:
    return None if value is None else as_json(value)


def _report_of(stored: str) -> Report:
    """What an instance of any release told of itself, as far as this one understands it."""
    try:
        return _decode_report(stored)
    except msgspec.DecodeError:
        return Report()


def storable(message: str, *, length_max: int = MESSAGE_LENGTH_MAX) -> str:
    """``message`` as every database can keep it: what a service said may be anything, and of any length."""
    return message[:length_max].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class Outgoing:
    """Values on their way into rows; the large ones are set aside for the payload table."""

    def __init__(self, inline_bytes_max: int) -> None:
        self._inline_bytes_max = inline_bytes_max
        self.payloads: list[tuple[int, str, bytes]] = []

    def value(self, task_key: int, value: bytes | None) -> bytes | None:
        """What the row of a task holds for ``value``."""
        if value is None or len(value) <= self._inline_bytes_max:
            return value
        check = claim_check(value)
        self.payloads.append((task_key, check[1:].decode(), value))
        return check

    def lean(self, steps: Sequence[LeanStep], field: str) -> Sequence[LeanStep]:
        """Moves of steps as their rows hold them; ``field`` is the one that may be large."""
        # A character may take four bytes: what is surely small needs no closer look.
        if 4 * max(map(len, map(attrgetter(field), steps))) <= self._inline_bytes_max:
            return steps
        return [self._lean(step, field) for step in steps]

    def _lean(self, step: LeanStep, field: str) -> LeanStep:
        stored = self.value(step.task_key, getattr(step, field).encode())
        return msgspec.structs.replace(step, **{field: (stored or b"").decode()})

    def input_of(self, new: NewTask) -> bytes:
        """The same for a task that has no key yet; ``entered`` follows once it has."""
        return claim_check(new.input) if self.is_large(new.input) else new.input

    def entered(self, task_key: int, new: NewTask) -> None:
        self.value(task_key, new.input)

    def is_large(self, value: bytes) -> bool:
        return len(value) > self._inline_bytes_max


class Shape:
    """How one database keeps the fields that databases keep differently: instants, and yes or no."""

    def __init__(
        self,
        *,
        stored: Callable[[datetime], Any],
        instant: Callable[[Any], datetime],
        flag: Callable[[bool], Any] = bool,
    ) -> None:
        self._stored = stored
        self._instant = instant
        self._flag = flag

    def stored(self, instant: datetime | None) -> Any:
        return None if instant is None else self._stored(instant)

    def _optional(self, stored: Any) -> datetime | None:
        return None if stored is None else self._instant(stored)

    def task_record(self, row: Row, payloads: Payloads) -> TaskRecord:
        """From the columns of ``task_columns``."""
        key = row[0]
        return TaskRecord(
            key=key,
            id=row[1],
            workflow=row[2],
            version=row[3],
            state=_TASK_STATES[row[4]],
            input=value_of(key, row[5], payloads) or b"",
            output=value_of(key, row[6], payloads),
            error=None if row[7] is None else _decode_failure(row[7]),
            complete_by=self._optional(row[8]),
            hard_end=self._optional(row[9]),
            locked_by=row[10],
            lock_number=row[11],
            failure_count=row[12],
            crash_count=row[13],
            wake_at=self._optional(row[14]),
            parked=bool(row[15]),
            request=None if row[16] is None else Request(row[16]),
            reply_to=row[17],
            attributes=_decode_attributes(row[18]),
            parent_key=row[19],
            parent_step=row[20],
            created_at=self._instant(row[21]),
            updated_at=self._instant(row[22]),
        )

    def task_row(self, task: TaskRecord, outgoing: Outgoing) -> Row:
        """The parameters of ``put_task``."""
        return (
            task.key,
            _word(task.state),
            outgoing.value(task.key, task.output),
            None if task.error is None else _encode(task.error),
            self.stored(task.complete_by),
            task.locked_by,
            task.lock_number,
            task.failure_count,
            task.crash_count,
            self.stored(task.wake_at),
            self._flag(task.parked),
            self.stored(task.updated_at),
            task.request,
        )

    def new_task_row(self, new: NewTask, now: datetime, outgoing: Outgoing) -> Row:
        """The parameters of ``insert_task``."""
        return (
            new.id,
            new.workflow,
            new.version,
            outgoing.input_of(new),
            self.stored(new.hard_end),
            new.reply_to,
            as_json(new.attributes),
            new.parent_key,
            new.parent_step,
            self.stored(now),
        )

    def step_record(self, row: Row, payloads: Payloads) -> StepRecord:
        """From the columns of ``step_columns``."""
        task_key = row[0]
        return StepRecord(
            task_key=task_key,
            key=row[1],
            kind=_KINDS[row[2]],
            agent=row[3],
            operation=row[4],
            state=_STEP_STATES[row[5]],
            attempt=row[6],
            failure_count=row[7],
            complete_by=self._optional(row[8]),
            input=value_of(task_key, row[9], payloads),
            output=value_of(task_key, row[10], payloads),
            error=None if row[11] is None else _decode_failure(row[11]),
            started_at=self._optional(row[12]),
            ended_at=self._optional(row[13]),
            position=row[14],
            undo=None if row[15] is None else _UNDOS[row[15]],
            undo_attempt=row[16],
            undo_failures=row[17],
            pivot=bool(row[18]),
            unsure=bool(row[19]),
        )

    def step_row(self, step: StepRecord, outgoing: Outgoing) -> Row:
        """The parameters of ``put_step``. Every step is written twice or more: no call that can be spared."""
        task_key, complete_by, ended_at = step.task_key, step.complete_by, step.ended_at
        stored, flag, value = self._stored, self._flag, outgoing.value
        return (
            task_key,
            step.key,
            _word(step.kind),
            step.agent,
            step.operation,
            _word(step.state),
            step.attempt,
            step.failure_count,
            None if complete_by is None else stored(complete_by),
            value(task_key, step.input),
            value(task_key, step.output),
            None if step.error is None else _encode(step.error),
            None if step.started_at is None else stored(step.started_at),
            None if ended_at is None else stored(ended_at),
            step.position,
            None if step.undo is None else _word(step.undo),
            step.undo_attempt,
            step.undo_failures,
            flag(step.pivot),
            flag(step.unsure),
        )

    def request_standing(self, row: Row) -> RequestStanding:
        """From the columns of ``request_columns``."""
        task_key, step, undo, attempt, claimed_by, withdrawn, broken_off, reply, complete_by = row
        return RequestStanding(
            reference=Reference(task_key, step, bool(undo), attempt),
            complete_by=self._instant(complete_by),
            claimed_by=claimed_by,
            withdrawn=bool(withdrawn),
            broken_off=None if broken_off is None else BrokenOff(broken_off),
            reply=None if reply is None else reply.encode(),
        )

    def instance_record(self, row: Row) -> InstanceRecord:
        """From the columns of ``instance_columns``."""
        return InstanceRecord(
            id=row[0],
            epoch=row[1],
            live=bool(row[2]),
            host=row[3],
            pid=row[4],
            runs=_decode_runs(row[5]),
            roles=_decode_roles(row[6]),
            report=_report_of(row[7]),
            started_at=self._instant(row[8]),
            heartbeat_at=self._instant(row[9]),
        )

    # What the supervisor keeps

    def leader(self, row: Row) -> Leader:
        holder, epoch, until = row
        return Leader(holder=holder, epoch=epoch, until=self._optional(until))

    def round(self, row: Row) -> Round:
        """From the columns of ``round_columns``."""
        return Round(
            at=self._instant(row[1]),
            epoch=row[2],
            freed=row[3],
            overrun=row[4],
            steps_expired=row[5],
            undos=row[6],
            woken=row[7],
            paused=row[8],
        )

    def round_values(self, done: Round) -> Values:
        """The parameters of ``insert_round``."""
        return {**msgspec.structs.asdict(done), "at": self.stored(done.at)}

    # What is kept for operators

    def control(self, row: Row) -> Control:
        """From the columns of ``control_columns``."""
        return Control(
            subject=Subject(row[0]),
            name=row[1],
            paused=bool(row[2]),
            breaker=None if row[3] is None else Forced(row[3]),
            by=row[4],
            reason=row[5],
            at=self._instant(row[6]),
        )

    def control_values(self, control: Control) -> Values:
        """The parameters of ``put_control``."""
        return {**msgspec.structs.asdict(control), "at": self.stored(control.at)}

    def alert(self, row: Row) -> Alert:
        """From the columns of ``alert_columns``."""
        return Alert(
            id=row[0],
            kind=AlertKind(row[1]),
            target=row[2],
            task_id=row[3],
            step=row[4],
            message=row[5],
            at=self._instant(row[6]),
            acknowledged_by=row[7],
            acknowledged_at=self._optional(row[8]),
            count=row[9],
            last_at=self._instant(row[10]),
        )

    def alert_row(self, alert: NewAlert, at: datetime) -> Row:
        """The parameters of ``insert_alert``."""
        message, stored = storable(alert.message), self.stored(at)
        return (alert.kind, alert.target, alert.task_id, alert.step, message, stored, stored)

    def call_values(self, alert: NewAlert, at: datetime) -> Values:
        """The parameters of ``call``."""
        return {
            **msgspec.structs.asdict(alert),
            "message": storable(alert.message),
            "at": self.stored(at),
        }

    def task_number(self, row: Row) -> TaskNumber:
        """From the columns of ``task_numbers``."""
        return TaskNumber(row[0], row[1], self._optional(row[2]))

    def undelivered(self, row: Row) -> Undelivered:
        """From the columns of ``undelivered``."""
        return Undelivered(alert=self.alert(row), attempt=row[11])

    def delivery_row(self, one: Delivery) -> Row:
        """The parameters of ``put_delivery``."""
        next_at = None if one.next_at is None else self.stored(one.next_at)
        error = None if one.error is None else storable(one.error)
        return (one.alert_id, one.sink, one.attempt, next_at, error)

    def entry(self, row: Row) -> Entry:
        """From the columns of ``entry_columns``."""
        return Entry(
            id=row[0],
            at=self._instant(row[1]),
            who=row[2],
            action=row[3],
            target=row[4],
            reason=row[5],
            before=None if row[6] is None else _decode_facts(row[6]),
            after=None if row[7] is None else _decode_facts(row[7]),
        )

    def entry_values(self, act: Act, at: datetime, *, before: Facts, after: Facts) -> Values:
        """The parameters of ``insert_entry``."""
        return {
            **msgspec.structs.asdict(act),
            "at": self.stored(at),
            "before": _optional_json(before),
            "after": _optional_json(after),
        }

    def token(self, row: Row) -> Token:
        """From the columns of ``token_columns``."""
        return Token(
            name=row[0],
            role=Role(row[1]),
            digest=row[2],
            created_at=self._instant(row[3]),
            revoked_at=self._optional(row[4]),
        )

    def token_values(self, token: Token) -> Values:
        """The parameters of ``insert_token``."""
        return {
            **msgspec.structs.asdict(token),
            "created_at": self.stored(token.created_at),
            "revoked_at": self.stored(token.revoked_at),
        }


def ended_row(task: TaskRecord, outgoing: Outgoing) -> Row:
    """What changes when a task ends as processed: its key, output, counts, and when that was."""
    output = outgoing.value(task.key, task.output) or b"null"
    return task.key, output.decode(), task.failure_count, task.crash_count, micros(task.updated_at)


def signal_of(row: Row, payloads: Payloads) -> Signal:
    """From task_key, number, name, payload."""
    return Signal(number=row[1], name=row[2], payload=value_of(row[0], row[3], payloads) or b"null")
