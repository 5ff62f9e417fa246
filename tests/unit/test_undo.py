"""Which steps are undone, in which order, and when each may start."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from backstay.domain.states import StepState
from backstay.domain.step import StepRecord, UndoKind, interrupted
from backstay.domain.undo import is_manual, may_start_at, pivot_passed, tried_again, undo_plan
from backstay.testing.records import NOON, a_step

AUTOMATIC = UndoKind.AUTOMATIC


def undoable(state: StepState, key: str, **fields: object) -> StepRecord:
    return a_step(state, key=key, undo=AUTOMATIC, **fields)


def keys(steps: list[StepRecord]) -> list[str]:
    return [step.key for step in steps]


# Which


def test_an_undo_that_failed_is_planned_again_when_it_is_asked_for_again():
    given_up = undoable(StepState.UNDO_FAILED, "a:1", undo_failures=3)
    over = undoable(StepState.UNDONE, "b:1")

    [planned] = undo_plan(tried_again(step) for step in (given_up, over))

    assert (planned.key, planned.state, planned.undo_failures) == ("a:1", StepState.UNDOING, 0)


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        pytest.param(undoable(StepState.COMPLETED, "a:1"), True, id="completed"),
        pytest.param(undoable(StepState.RUNNING, "a:1"), True, id="running"),
        pytest.param(interrupted(undoable(StepState.RUNNING, "a:1")), True, id="interrupted"),
        pytest.param(undoable(StepState.FAILED, "a:1", unsure=True), True, id="failed, outcome unknown"),
        pytest.param(undoable(StepState.UNDOING, "a:1"), True, id="undo under way"),
        pytest.param(
            undoable(StepState.UNDOING, "a:1", output=None), True, id="undo under way, outcome unknown"
        ),
        pytest.param(undoable(StepState.FAILED, "a:1"), False, id="failed, certainly no effect"),
        pytest.param(undoable(StepState.PENDING, "a:1", unsure=True), True, id="in line for another attempt"),
        pytest.param(undoable(StepState.PENDING, "a:1"), False, id="not begun"),
        pytest.param(undoable(StepState.SKIPPED, "a:1"), False, id="skipped"),
        pytest.param(undoable(StepState.UNDONE, "a:1"), False, id="undone already"),
        pytest.param(undoable(StepState.UNDO_FAILED, "a:1"), False, id="given up"),
        pytest.param(a_step(StepState.COMPLETED, undo=None), False, id="declares no undo"),
        pytest.param(a_step(StepState.COMPLETED, undo=UndoKind.MANUAL), True, id="a person's work"),
    ],
)
def test_what_has_an_effect_known_or_possible_and_declares_an_undo_is_undone(step: StepRecord, wanted: bool):
    assert undo_plan([step]) == ([step] if wanted else [])


# In which order


def test_steps_are_undone_newest_first_by_completion_not_by_beginning():
    long_running = undoable(StepState.COMPLETED, "long:1", started_at=NOON, position=2)
    short = undoable(StepState.COMPLETED, "short:1", started_at=NOON + timedelta(seconds=1), position=1)

    assert keys(undo_plan([short, long_running])) == ["long:1", "short:1"]


def test_a_step_of_unknown_outcome_is_newer_than_every_completed_one():
    unknown = undoable(StepState.RUNNING, "unknown:1", started_at=NOON)
    completed = undoable(StepState.COMPLETED, "done:1", started_at=NOON + timedelta(seconds=1), position=9)

    assert keys(undo_plan([completed, unknown])) == ["unknown:1", "done:1"]


def test_among_steps_of_unknown_outcome_the_one_begun_last_is_undone_first():
    early = undoable(StepState.RUNNING, "early:1", started_at=NOON)
    late = undoable(StepState.RUNNING, "late:1", started_at=NOON + timedelta(seconds=1))

    assert keys(undo_plan([early, late])) == ["late:1", "early:1"]


def test_a_plan_that_is_taken_up_again_keeps_its_order():
    steps = [
        undoable(StepState.COMPLETED, "a:1", position=1),
        undoable(StepState.UNDOING, "b:1", position=2),
        undoable(StepState.UNDONE, "c:1", position=3),
    ]

    assert keys(undo_plan(steps)) == ["b:1", "a:1"]


# When


@pytest.mark.parametrize(
    ("step", "instant"),
    [
        pytest.param(undoable(StepState.COMPLETED, "a:1"), None, id="its end is known"),
        pytest.param(undoable(StepState.FAILED, "a:1", unsure=True), None, id="failed, its end is known"),
        pytest.param(undoable(StepState.RUNNING, "a:1", complete_by=NOON), NOON, id="running"),
        pytest.param(
            interrupted(undoable(StepState.RUNNING, "a:1", complete_by=NOON)), NOON, id="interrupted"
        ),
        pytest.param(undoable(StepState.UNDOING, "a:1", ended_at=None), None, id="its undo began before"),
    ],
)
def test_no_undo_starts_while_the_attempt_may_still_be_at_work(step: StepRecord, instant: datetime | None):
    assert may_start_at(step) == instant


# The point of no return


@pytest.mark.parametrize(
    ("state", "fields", "passed"),
    [
        (StepState.COMPLETED, {}, True),
        (StepState.RUNNING, {}, True),
        (StepState.FAILED, {"unsure": True}, True),
        (StepState.PENDING, {"unsure": True}, True),
        (StepState.FAILED, {}, False),
        (StepState.PENDING, {}, False),
        (StepState.SKIPPED, {}, False),
    ],
)
def test_a_pivot_lies_behind_when_it_had_or_may_have_had_its_effect(
    state: StepState, fields: dict[str, object], passed: bool
):
    assert pivot_passed([a_step(), a_step(state, key="p:1", pivot=True, **fields)]) is passed


def test_without_a_pivot_there_is_no_point_of_no_return():
    assert not pivot_passed([a_step(), a_step(StepState.RUNNING)])
    assert not pivot_passed([])


def test_a_manual_undo_is_told_from_an_automatic_one():
    assert is_manual(a_step(undo=UndoKind.MANUAL))
    assert not is_manual(a_step(undo=AUTOMATIC))
    assert not is_manual(a_step())
