"""What a workflow waits for beside its steps: the time, a signal, a child."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from backstay.clock import Alarm
from backstay.definitions.codec import TypeCodec
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure, StepKind, StepRecord
from backstay.domain.task import Signal, TaskRecord
from backstay.errors import Conflict, TaskFailed
from backstay.scheduler.ledger import Ledger
from backstay.scheduler.services import Services

replace = msgspec.structs.replace

_ANYTHING: Final = TypeCodec(Any, "payload of a signal")
# A child in ``error`` is not over: an operator may still bring it home.
_OVER: Final = frozenset({TaskState.PROCESSED, TaskState.UNDONE, TaskState.UNDO_FAILED, TaskState.CANCELLED})


class Wait:
    """A sleep, a signal or a child that the workflow is waiting for."""

    __slots__ = (
        "_first",
        "alarm",
        "child_id",
        "codec",
        "confirmed",
        "future",
        "key",
        "kind",
        "name",
        "signal",
    )

    future: asyncio.Future[Any]  # made when the call is awaited

    def __init__(
        self,
        record: StepRecord,
        *,
        name: str,
        codec: TypeCodec = _ANYTHING,
        child_id: str = "",
    ) -> None:
        self._first = record
        self.key = record.key
        self.kind = kind = record.kind
        self.name = name
        self.codec = codec
        self.child_id = child_id
        # A child counts only once the store has been asked how it stands.
        self.confirmed = kind is not StepKind.CHILD
        self.alarm: Alarm | None = None
        # What it was given, from then on until the workflow has it.
        self.signal: Signal | None = None

    @property
    def operation(self) -> str:
        return self._first.operation

    @property
    def input(self) -> bytes:
        return self._first.input or b""

    def first_record(self, _task_key: int) -> StepRecord:
        return self._first

    def failure(self, record: StepRecord) -> Exception:
        error = record.error or Failure("Unknown", "no error was recorded")
        match self.kind:
            case StepKind.SIGNAL:
                return TimeoutError(error.message)
            case StepKind.CHILD if error.type in _OVER:
                return TaskFailed(error.type, error.step, msgspec.to_builtins(error))
            case _:
                return Conflict(error.message)


@dataclass(frozen=True, slots=True)
class LeftChild:
    """A child that nobody waits for any more: it is to be stopped, and perhaps undone."""

    id: str
    undo: bool


Settled = Callable[[Wait, StepRecord], None]


def _nothing(*_args: Any) -> None:
    """Called in place of a run that is over."""


class Waits:
    """The waits of one run. What came true is handed to ``settled``, in the order in which it did."""

    __slots__ = ("_ledger", "_services", "_settled", "_signals", "_taken", "left", "open")

    def __init__(
        self, services: Services, ledger: Ledger, signals: Iterable[Signal], *, settled: Settled
    ) -> None:
        self._services = services
        self._ledger = ledger
        self._signals = {signal.number: signal for signal in signals}
        self._taken: frozenset[int] = frozenset()
        self._settled = settled
        self.open: dict[str, Wait] = {}
        self.left: list[LeftChild] = []  # not taken yet

    # How it stands

    @property
    def waiting(self) -> bool:
        return bool(self.open)

    @property
    def unconfirmed(self) -> bool:
        return any(not wait.confirmed for wait in self.open.values())

    def next_due(self) -> datetime | None:
        """When the first of them ends by itself, if any does."""
        dues = [self._ledger.steps[key].complete_by for key in self.open]
        return min((due for due in dues if due is not None), default=None)

    def children(self) -> list[Wait]:
        return [wait for wait in self.open.values() if wait.kind is StepKind.CHILD]

    # Beginning and ending

    def begin(self, wait: Wait) -> None:
        """Start to wait; the entry is in the ledger already."""
        self._open(wait)
        if wait.kind is StepKind.SIGNAL and self._take_signal(wait):
            return
        due = self._ledger.steps[wait.key].complete_by
        if due is not None:
            seconds = (due - self._services.clock.now()).total_seconds()
            wait.alarm = self._services.alarms.after(max(0.0, seconds), lambda: self._due(wait))

    def resume(self, wait: Wait) -> None:
        """Go on with a wait of an earlier run; one that was withdrawn counts from when it first began."""
        record = self._ledger.steps[wait.key]
        if record.state is StepState.PENDING:
            seconds = (
                msgspec.json.decode(record.input or b"null") if wait.kind is not StepKind.CHILD else None
            )
            due = None
            if seconds is not None and record.started_at is not None:
                due = record.started_at + timedelta(seconds=seconds)
            self._ledger.put(replace(record, state=StepState.RUNNING, complete_by=due))
        self.begin(wait)

    def withdraw(self, wait: Wait, *, undo_child: bool = True) -> None:
        """The workflow stopped waiting; a child is to be stopped as well."""
        if wait.key not in self.open:
            return
        self._shut(wait)
        self._silence(wait)
        error = Failure("Cancelled", "the workflow stopped waiting", step=wait.key)
        record = self._ledger.steps[wait.key]
        self._ledger.put(
            replace(record, state=StepState.FAILED, error=error, unsure=wait.kind is StepKind.CHILD)
        )
        if wait.kind is StepKind.CHILD:
            self.left.append(LeftChild(wait.child_id, undo=undo_child))

    def withdraw_all(self, *, undo_children: bool) -> None:
        for wait in list(self.open.values()):
            self.withdraw(wait, undo_child=undo_children)

    def take_left(self) -> list[LeftChild]:
        """The children that the workflow stopped waiting for since this was last asked."""
        left, self.left = self.left, []
        return left

    def left_before(self, wait: Wait) -> list[LeftChild]:
        """A child that an earlier run left: it may have died before the child was told."""
        withdrawn = self._ledger.steps[wait.key].state is StepState.FAILED
        return [LeftChild(wait.child_id, undo=True)] if wait.kind is StepKind.CHILD and withdrawn else []

    def stop(self) -> None:
        """Sit still: what is waited for stays recorded, and goes on with the next run."""
        for wait in list(self.open.values()):
            self._shut(wait)
            self._silence(wait)
        self._settled = _nothing

    # What happens outside

    def signals_arrived(self, signals: Iterable[Signal]) -> None:
        fresh = [signal for signal in signals if signal.number not in self._taken]
        self._signals = {signal.number: signal for signal in fresh}
        for wait in list(self.open.values()):
            if wait.kind is StepKind.SIGNAL:
                self._take_signal(wait)

    def child_stands(self, wait: Wait, child: TaskRecord) -> None:
        """The store was asked how a child stands."""
        wait.confirmed = True
        if self.open.get(wait.key) is not wait:
            return
        if (child.parent_key, child.parent_step) != (self._ledger.task.key, wait.key):
            taken = Failure(
                "IdConflict", f"task {wait.child_id!r} exists already and is not a child of this one"
            )
            self._settle(wait, state=StepState.FAILED, error=taken)
        elif child.state is TaskState.PROCESSED:
            self._settle(wait, state=StepState.COMPLETED, output=child.output)
        elif child.state in _OVER:
            known = child.error or Failure("Unknown", f"the child is {child.state}")
            error = Failure(child.state, f"{child.id}: {known.type}: {known.message}", step=wait.key)
            self._settle(wait, state=StepState.FAILED, error=error)

    def _take_signal(self, wait: Wait) -> bool:
        number = next((number for number, one in self._signals.items() if one.name == wait.name), None)
        if number is None:
            return False
        wait.signal = self._signals.pop(number)
        self._taken |= {number}
        self._settle(wait, state=StepState.COMPLETED, output=wait.signal.payload)
        return True

    def give_back(self, wait: Wait) -> None:
        """The workflow stopped waiting just before it was given its signal: the next one may have it."""
        if wait.signal is not None:
            self._taken -= {wait.signal.number}
            self._signals = dict(sorted([*self._signals.items(), (wait.signal.number, wait.signal)]))
        self._open(wait)
        self.withdraw(wait)

    def _due(self, wait: Wait) -> None:
        if wait.kind is StepKind.SLEEP:
            self._settle(wait, state=StepState.COMPLETED, output=b"null")
        else:
            late = Failure("TimeoutError", f"no signal {wait.name!r} came in time", step=wait.key)
            self._settle(wait, state=StepState.FAILED, error=late)

    def _settle(self, wait: Wait, **outcome: Any) -> None:
        self._shut(wait)
        self._silence(wait)
        record = self._ledger.steps[wait.key]
        ended_at = self._services.clock.now()
        position = self._ledger.next_position()
        self._settled(wait, replace(record, ended_at=ended_at, position=position, **outcome))

    def _open(self, wait: Wait) -> None:
        self.open[wait.key] = wait
        self._services.waits.open += 1

    def _shut(self, wait: Wait) -> None:
        del self.open[wait.key]
        self._services.waits.open -= 1

    @staticmethod
    def _silence(wait: Wait) -> None:
        if wait.alarm is not None:
            wait.alarm.cancel()
            wait.alarm = None
