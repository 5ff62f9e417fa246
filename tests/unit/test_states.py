"""The two state machines: the arrows are exactly those in the tables."""

from __future__ import annotations

from itertools import product

import pytest

from backstay.domain.states import (
    SETTLED,
    STEP_ARROWS,
    TASK_ARROWS,
    StepState,
    TaskState,
    advance_step,
    advance_task,
)
from backstay.errors import IllegalMove


@pytest.mark.parametrize(("source", "target"), list(product(TaskState, TaskState)))
def test_a_task_advances_along_its_arrows_and_nowhere_else(source: TaskState, target: TaskState):
    if target in TASK_ARROWS[source]:
        assert advance_task(source, target) is target
    else:
        with pytest.raises(IllegalMove, match=f"task t is {source} and cannot become {target}"):
            advance_task(source, target, what="task t")


@pytest.mark.parametrize(("source", "target"), list(product(StepState, StepState)))
def test_a_step_advances_along_its_arrows_and_nowhere_else(source: StepState, target: StepState):
    if target in STEP_ARROWS[source]:
        assert advance_step(source, target) is target
    else:
        with pytest.raises(IllegalMove) as refused:
            advance_step(source, target)
        assert (refused.value.source, refused.value.target) == (source, target)


def test_every_state_has_a_row_in_its_table():
    assert set(TASK_ARROWS) == set(TaskState)
    assert set(STEP_ARROWS) == set(StepState)


def test_every_state_can_be_reached_from_pending():
    assert reachable(TASK_ARROWS, TaskState.PENDING) == set(TaskState)
    assert reachable(STEP_ARROWS, StepState.PENDING) == set(StepState)


def test_a_task_that_ended_for_good_has_nowhere_to_go():
    ended = {state for state in TaskState if not TASK_ARROWS[state]}

    assert ended == {TaskState.UNDONE, TaskState.CANCELLED}
    assert ended < SETTLED


def test_no_settled_task_is_one_that_a_scheduler_works_on():
    assert not SETTLED & {TaskState.PENDING, TaskState.PROCESSING, TaskState.WAITING, TaskState.UNDOING}


def reachable(arrows, start):
    found, unseen = {start}, [start]
    while unseen:
        for target in arrows[unseen.pop()] - found:
            found.add(target)
            unseen.append(target)
    return found
