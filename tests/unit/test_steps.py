"""The record of a step: what is known of its effect, and how a journal is read."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backstay.domain.states import StepState
from backstay.domain.step import Outcome, StepRecord, in_order_of_beginning, interrupted
from backstay.testing.records import BROKEN, NOON, a_step


@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        pytest.param(a_step(StepState.COMPLETED), Outcome.COMPLETED, id="completed"),
        pytest.param(a_step(StepState.UNDO_FAILED), Outcome.COMPLETED, id="completed, its undo failed"),
        pytest.param(a_step(StepState.RUNNING), Outcome.UNKNOWN, id="running"),
        pytest.param(a_step(StepState.FAILED, unsure=True), Outcome.UNKNOWN, id="failed without a verdict"),
        pytest.param(
            a_step(StepState.UNDOING, output=None, unsure=True), Outcome.UNKNOWN, id="unknown, being undone"
        ),
        pytest.param(a_step(StepState.FAILED), None, id="failed by the service's own word"),
        pytest.param(a_step(StepState.PENDING, unsure=True), Outcome.UNKNOWN, id="in line for another"),
        pytest.param(a_step(StepState.PENDING), None, id="not begun"),
        pytest.param(a_step(StepState.SKIPPED), None, id="skipped"),
    ],
)
def test_what_is_known_of_a_steps_effect(step: StepRecord, outcome: Outcome | None):
    assert step.outcome is outcome


def test_a_step_is_settled_once_the_workflow_was_given_its_result_or_failure():
    assert a_step(StepState.COMPLETED, position=3).settled
    assert a_step(StepState.FAILED, position=3).settled
    assert not a_step(StepState.FAILED, position=None).settled
    assert not a_step(StepState.RUNNING).settled


def test_an_interrupted_attempt_failed_with_an_unknown_outcome_and_may_still_be_at_work():
    running = a_step(StepState.RUNNING, attempt=2)

    step = interrupted(running)

    assert (step.state, step.outcome) == (StepState.FAILED, Outcome.UNKNOWN)
    assert (step.complete_by, step.ended_at) == (running.complete_by, None)
    assert step.error is not None
    assert "attempt 2 was interrupted" in step.error.message


def test_a_journal_is_read_in_the_order_in_which_it_was_begun_and_plans_come_last():
    planned = a_step(StepState.PENDING, key="later:1")
    second = a_step(key="b:1", started_at=NOON + timedelta(seconds=1), position=1)
    first = a_step(StepState.FAILED, key="a:1", started_at=NOON, error=BROKEN)
    twin = a_step(key="c:1", started_at=NOON + timedelta(seconds=1), position=2)
    under_way = a_step(StepState.RUNNING, key="a:2", started_at=NOON + timedelta(seconds=1))
    journal = [first, second, twin, under_way, planned]

    assert in_order_of_beginning(reversed(journal)) == journal


def test_what_began_at_the_same_instant_is_read_in_the_same_order_whatever_order_it_comes_in():
    twins = [a_step(StepState.RUNNING, key=key) for key in ("a:1", "b:1", "c:1")]
    planned = [a_step(StepState.PENDING, key=key) for key in ("x:1", "y:1")]

    assert in_order_of_beginning([*reversed(planned), *reversed(twins)]) == [*twins, *planned]
