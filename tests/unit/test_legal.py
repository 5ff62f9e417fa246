"""What is offered to an operator is what would not be refused."""

from __future__ import annotations

import pytest

from backstay.domain.legal import Legal, Move, legal_moves
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure, StepKind, UndoKind
from backstay.testing.records import NOON, a_step, a_task, a_wait

DONE = a_step(key="charge:1", undo=UndoKind.AUTOMATIC)

# Of a task that did something. What is completed can be completed by nobody else.
OFFERED = {
    TaskState.PENDING: {Move.UNDO, Move.CANCEL, Move.SIGNAL},
    TaskState.PROCESSING: {Move.UNDO, Move.CANCEL, Move.SIGNAL},
    TaskState.WAITING: {Move.RESUBMIT, Move.RESTART, Move.UNDO, Move.CANCEL, Move.SIGNAL},
    TaskState.ERROR: {Move.RESUBMIT, Move.RESTART, Move.UNDO, Move.CANCEL, Move.SIGNAL},
    TaskState.PROCESSED: {Move.UNDO},
    TaskState.UNDOING: {Move.SIGNAL},
    TaskState.UNDO_FAILED: {Move.RESUBMIT, Move.UNDO, Move.SIGNAL},
    TaskState.UNDONE: set(),
    TaskState.CANCELLED: set(),
}


@pytest.mark.parametrize("state", list(TaskState))
def test_each_state_offers_its_moves(state: TaskState):
    offered = legal_moves(a_task(state), [DONE], now=NOON)

    assert {legal.move for legal in offered} == OFFERED[state]


def test_a_task_that_did_nothing_can_be_cancelled_but_not_undone():
    offered = {legal.move for legal in legal_moves(a_task(TaskState.PENDING), [], now=NOON)}

    assert offered == {Move.CANCEL, Move.SIGNAL}


def test_behind_its_point_of_no_return_no_undo_is_offered():
    pivot = a_step(key="send:1", pivot=True)

    assert Legal(Move.UNDO) not in legal_moves(a_task(TaskState.ERROR), [pivot], now=NOON)


def test_a_step_that_failed_can_be_completed_by_hand_and_one_at_work_cannot():
    failed = a_step(StepState.FAILED, key="ship:1", error=Failure("Permanent", "no road"))
    running = a_step(StepState.RUNNING, key="pack:1")

    offered = legal_moves(a_task(TaskState.ERROR), [DONE, failed, running], now=NOON)

    assert [one.about for one in offered if one.move is Move.COMPLETE_STEP] == ["ship:1"]


def test_an_undo_that_fails_can_be_confirmed_by_hand():
    stuck = a_step(StepState.UNDO_FAILED, key="charge:1", undo=UndoKind.AUTOMATIC)

    offered = legal_moves(a_task(TaskState.UNDO_FAILED), [stuck], now=NOON)

    assert Legal(Move.COMPLETE_STEP, "charge:1") in offered


def test_the_signal_that_is_waited_for_is_offered_before_any_other():
    wait = a_wait(StepKind.SIGNAL, "approval:1", operation="approval")

    offered = legal_moves(a_task(TaskState.WAITING), [wait], now=NOON)

    assert offered[-2:] == [Legal(Move.SIGNAL, "approval"), Legal(Move.SIGNAL)]
