"""The five columns of the pattern, as they are made from a task and its steps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import msgspec
import pytest

from backstay.domain.states import TaskState
from orders.order import Order
from orders.record import record_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)
OF_RUN, OF_CHARGE = NOW + timedelta(minutes=10), NOW + timedelta(seconds=2)
ORDER = Order(id="order-1", customer="ada", cents=4_200, card_token="tok_visa")


@dataclass(frozen=True)
class Failure:
    message: str


@dataclass(frozen=True)
class Task:
    state: str
    locked_by: str | None = None
    complete_by: datetime | None = None
    failure_count: int = 0
    error: Failure | None = None


@dataclass(frozen=True)
class Step:
    state: str
    agent: str | None = "payment"
    complete_by: datetime | None = OF_CHARGE
    failure_count: int = 0


def shown(task: Task, *steps: Step) -> Any:
    return msgspec.to_builtins(record_of(ORDER, task, steps), builtin_types=(datetime,))


def test_an_order_that_nobody_has_taken_up():
    assert shown(Task("pending")) == {
        "OrderID": "order-1",
        "LockedBy": None,
        "CompleteBy": None,
        "ProcessState": "Pending",
        "FailureCount": 0,
        "customer": "ada",
        "cents": 4_200,
    }


@pytest.mark.parametrize(
    ("steps", "complete_by"),
    [
        ([], OF_RUN),
        ([Step("pending", complete_by=None)], OF_RUN),
        ([Step("running")], OF_CHARGE),
        ([Step("undoing")], OF_CHARGE),
        ([Step("completed")], OF_RUN),
        ([Step("running", agent="other")], OF_RUN),
    ],
)
def test_the_complete_by_is_that_of_the_payment_under_way_or_else_of_the_run(
    steps: list[Step], complete_by: datetime
):
    task = Task("processing", locked_by="scheduler-1", complete_by=OF_RUN)

    assert shown(task, *steps)["CompleteBy"] == complete_by


def test_an_order_that_nobody_holds_has_no_complete_by_whatever_its_steps_say():
    assert shown(Task("pending"), Step("running"))["CompleteBy"] is None


def test_failures_of_runs_and_of_payments_add_up_and_others_do_not_count():
    counts = [
        shown(Task("pending", failure_count=run), Step("failed", failure_count=step))["FailureCount"]
        for run, step in product((0, 2), (0, 3))
    ]

    assert counts == [0, 3, 2, 5]
    assert shown(Task("pending"), Step("failed", agent="other", failure_count=1))["FailureCount"] == 0


def test_every_state_of_a_task_has_its_name():
    assert [shown(Task(state))["ProcessState"] for state in TaskState] == [
        "Pending",
        "Processing",
        "Processed",
        "Waiting",
        "Error",
        "Undoing",
        "Undone",
        "UndoFailed",
        "Cancelled",
    ]


def test_the_error_is_told_when_the_order_has_stopped_with_it_and_only_then():
    declined = Failure("declined")

    assert shown(Task("error", error=declined))["error"] == "declined"
    assert "error" not in shown(Task("waiting", error=declined))
