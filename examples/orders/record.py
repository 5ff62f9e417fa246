"""The record of an order: the five columns of the pattern, made from its task and the steps of that.

| column         | is                                                                                  |
|----------------|-------------------------------------------------------------------------------------|
| `OrderID`      | the id of the order, which is that of its task                                      |
| `LockedBy`     | the scheduler that holds the task; null while nobody does                           |
| `CompleteBy`   | that of the payment while it is under way, else that of the task's run, else null   |
| `ProcessState` | the state of the task: `Pending`, `Processing`, `Waiting`, `Processed`, `Error`,    |
|                | `Undoing`, `Undone`, `UndoFailed`, `Cancelled`                                      |
| `FailureCount` | the runs that passed their complete-by and the attempts at a payment that failed;   |
|                | processes that died are counted apart, and a resubmission begins at 0               |
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Protocol

import msgspec

from orders.order import Order
from orders.workflow import PAYMENT

_UNDER_WAY: Final = frozenset({"running", "undoing"})
_ERROR: Final = "error"


class Failure(Protocol):
    @property
    def message(self) -> str: ...


class Task(Protocol):
    """What the record needs to know of a task."""

    @property
    def state(self) -> str: ...
    @property
    def locked_by(self) -> str | None: ...
    @property
    def complete_by(self) -> datetime | None: ...
    @property
    def failure_count(self) -> int: ...
    @property
    def error(self) -> Failure | None: ...


class Step(Protocol):
    """What the record needs to know of a step."""

    @property
    def agent(self) -> str | None: ...
    @property
    def state(self) -> str: ...
    @property
    def complete_by(self) -> datetime | None: ...
    @property
    def failure_count(self) -> int: ...


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The five columns, what was ordered, and the error that stopped it. Never the card token."""

    order_id: str = msgspec.field(name="OrderID")
    locked_by: str | None = msgspec.field(name="LockedBy")
    complete_by: datetime | None = msgspec.field(name="CompleteBy")
    process_state: str = msgspec.field(name="ProcessState")
    failure_count: int = msgspec.field(name="FailureCount")
    customer: str
    cents: int
    error: str | msgspec.UnsetType = msgspec.UNSET


def record_of(order: Order, task: Task, steps: Iterable[Step]) -> Record:
    payments = [step for step in steps if step.agent == PAYMENT]
    return Record(
        order_id=order.id,
        locked_by=task.locked_by,
        complete_by=_complete_by(task, payments),
        process_state=_in_capitals(task.state),
        failure_count=task.failure_count + sum(step.failure_count for step in payments),
        customer=order.customer,
        cents=order.cents,
        error=task.error.message if task.error and task.state == _ERROR else msgspec.UNSET,
    )


def _complete_by(task: Task, payments: Iterable[Step]) -> datetime | None:
    # A task that nobody holds is not being worked on, whatever its steps looked like when that ended.
    if task.locked_by is None:
        return task.complete_by
    under_way = (step.complete_by for step in payments if step.state in _UNDER_WAY)
    return next((instant for instant in under_way if instant is not None), task.complete_by)


def _in_capitals(state: str) -> str:
    return "".join(word.capitalize() for word in state.split("_"))
