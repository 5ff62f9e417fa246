"""Rows to records and back, the same for every backend.

A database keeps instants in a form of its own (``Shape``), and the text of JSON as it was encoded.
A value above the inline limit stays out of the row: the row holds a *claim check*, ``@`` and the
value's digest, and the value lies in the payload table under that digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure, StepKind, StepRecord, UndoKind
from backstay.domain.task import NewTask, Request, Signal, TaskRecord
from backstay.store.base import InstanceRecord

Row = Sequence[Any]

#: (key of the task, digest) to value.
Payloads = Mapping[tuple[int, str], bytes]

CLAIM_CHECK: Final = b"@"  # No JSON text begins with it.

#: Where in a row of each kind a claim check may stand.
TASK_VALUES: Final = (5, 6)
STEP_VALUES: Final = (9, 10)
SIGNAL_VALUES: Final = (3,)

_encode: Final = msgspec.json.Encoder().encode
_decode_failure: Final = msgspec.json.Decoder(Failure).decode
_decode_attributes: Final = msgspec.json.Decoder(dict[str, str]).decode
_decode_runs: Final = msgspec.json.Decoder(tuple[tuple[str, int], ...]).decode

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


class Outgoing:
    """Values on their way into rows; the large ones are set aside for the payload table."""

    def __init__(self, inline_bytes_max: int) -> None:
        self._inline_bytes_max = inline_bytes_max
        self.payloads: list[tuple[int, str, bytes]] = []

    def value(self, task_key: int, value: bytes | None) -> bytes | None:
        """What the row of a task holds for ``value``."""
        if value is None or not self.is_large(value):
            return value
        check = claim_check(value)
        self.payloads.append((task_key, check[1:].decode(), value))
        return check

    def input_of(self, new: NewTask) -> bytes:
        """The same for a task that has no key yet; ``entered`` follows once it has."""
        return claim_check(new.input) if self.is_large(new.input) else new.input

    def entered(self, task_key: int, new: NewTask) -> None:
        self.value(task_key, new.input)

    def is_large(self, value: bytes) -> bool:
        return len(value) > self._inline_bytes_max


class Shape:
    """How one database keeps the fields that databases keep differently: instants."""

    def __init__(self, *, stored: Callable[[datetime], Any], instant: Callable[[Any], datetime]) -> None:
        self._stored = stored
        self._instant = instant

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
            task.state,
            outgoing.value(task.key, task.output),
            None if task.error is None else _encode(task.error),
            self.stored(task.complete_by),
            task.locked_by,
            task.lock_number,
            task.failure_count,
            task.crash_count,
            self.stored(task.wake_at),
            task.parked,
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
        """The parameters of ``put_step``."""
        task_key = step.task_key
        return (
            task_key,
            step.key,
            step.kind,
            step.agent,
            step.operation,
            step.state,
            step.attempt,
            step.failure_count,
            self.stored(step.complete_by),
            outgoing.value(task_key, step.input),
            outgoing.value(task_key, step.output),
            None if step.error is None else _encode(step.error),
            self.stored(step.started_at),
            self.stored(step.ended_at),
            step.position,
            step.undo,
            step.undo_attempt,
            step.undo_failures,
            step.pivot,
            step.unsure,
        )

    def instance_record(self, row: Row) -> InstanceRecord:
        return InstanceRecord(
            id=row[0],
            epoch=row[1],
            live=bool(row[2]),
            host=row[3],
            pid=row[4],
            runs=_decode_runs(row[5]),
            started_at=self._instant(row[6]),
            heartbeat_at=self._instant(row[7]),
        )


def signal_of(row: Row, payloads: Payloads) -> Signal:
    """From task_key, number, name, payload."""
    return Signal(number=row[1], name=row[2], payload=value_of(row[0], row[3], payloads) or b"null")
