"""What happens after an attempt, or a whole run, failed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backstay.domain.recovery import (
    Cause,
    GiveUp,
    Park,
    Recovery,
    Then,
    Undo,
    Verdict,
    after_failure,
    before_run,
    may_repeat,
)
from backstay.domain.states import StepState, TaskState
from backstay.errors import InvalidRequest
from backstay.testing.records import NOON, a_step, a_task

LATER = NOON + timedelta(minutes=10)
PARK, UNDO, GIVE_UP = Park(LATER), Undo(), GiveUp()

# Every cause, every policy, before and after the point of no return.
VERDICTS: dict[tuple[Cause, Then], tuple[Verdict, Verdict]] = {
    # cause, then                 : (pivot ahead, pivot passed)
    (Cause.PERMANENT, "undo"): (UNDO, GIVE_UP),
    (Cause.PERMANENT, "wait"): (PARK, GIVE_UP),
    (Cause.PERMANENT, "error"): (GIVE_UP, GIVE_UP),
    (Cause.EXHAUSTED, "undo"): (UNDO, PARK),
    (Cause.EXHAUSTED, "wait"): (PARK, PARK),
    (Cause.EXHAUSTED, "error"): (GIVE_UP, GIVE_UP),
    (Cause.UNREPEATABLE, "undo"): (UNDO, GIVE_UP),
    (Cause.UNREPEATABLE, "wait"): (GIVE_UP, GIVE_UP),
    (Cause.UNREPEATABLE, "error"): (GIVE_UP, GIVE_UP),
    (Cause.OVERRUN, "undo"): (UNDO, PARK),
    (Cause.OVERRUN, "wait"): (PARK, PARK),
    (Cause.OVERRUN, "error"): (GIVE_UP, GIVE_UP),
    (Cause.CRASHES, "undo"): (UNDO, GIVE_UP),
    (Cause.CRASHES, "wait"): (GIVE_UP, GIVE_UP),
    (Cause.CRASHES, "error"): (GIVE_UP, GIVE_UP),
    (Cause.HARD_END, "undo"): (UNDO, GIVE_UP),
    (Cause.HARD_END, "wait"): (UNDO, GIVE_UP),
    (Cause.HARD_END, "error"): (GIVE_UP, GIVE_UP),
}


def test_the_table_of_verdicts_has_every_case():
    assert set(VERDICTS) == {(cause, then) for cause in Cause for then in ("undo", "wait", "error")}


@pytest.mark.parametrize(("cause", "then"), VERDICTS)
@pytest.mark.parametrize("passed", [False, True], ids=["pivot ahead", "pivot passed"])
def test_what_becomes_of_a_task_follows_from_cause_policy_and_pivot(cause: Cause, then: Then, passed: bool):
    recovery = Recovery(wait="10m", then=then)

    verdict = after_failure(cause, recovery, pivot_passed=passed, now=NOON, hard_end=None)

    assert verdict == VERDICTS[cause, then][passed]


@pytest.mark.parametrize(("cause", "then"), VERDICTS)
def test_after_the_point_of_no_return_nothing_is_ever_undone(cause: Cause, then: Then):
    assert VERDICTS[cause, then][True] != UNDO


def test_a_rest_ends_at_the_hard_end_at_the_latest():
    recovery, end = Recovery(wait="10m", then="wait"), NOON + timedelta(minutes=3)

    verdict = after_failure(Cause.EXHAUSTED, recovery, pivot_passed=False, now=NOON, hard_end=end)

    assert verdict == Park(end)


def test_a_hard_end_further_away_does_not_lengthen_a_rest():
    recovery = Recovery(wait="10m", then="wait")

    verdict = after_failure(
        Cause.EXHAUSTED, recovery, pivot_passed=False, now=NOON, hard_end=NOON + timedelta(days=1)
    )

    assert verdict == Park(LATER)


@pytest.mark.parametrize(
    ("failures", "unsure", "idempotent", "repeated"),
    [
        (0, False, True, True),
        (2, False, True, True),
        (3, False, True, False),
        (9, False, True, False),
        (1, True, True, True),
        (1, True, False, False),
        (1, False, False, True),
    ],
)
def test_a_step_is_repeated_while_its_policy_and_its_nature_allow(
    failures: int, unsure: bool, idempotent: bool, repeated: bool
):
    step = a_step(StepState.FAILED, failure_count=failures, unsure=unsure)

    assert may_repeat(step, Recovery(attempts=3), idempotent=idempotent) is repeated


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({}, None),
        ({"failure_count": 2, "crash_count": 9}, None),
        ({"failure_count": 3}, Cause.OVERRUN),
        ({"crash_count": 10}, Cause.CRASHES),
        ({"hard_end": NOON + timedelta(seconds=1)}, None),
        ({"hard_end": NOON}, Cause.HARD_END),
        ({"hard_end": NOON, "failure_count": 3, "crash_count": 10}, Cause.HARD_END),
    ],
)
def test_a_claimed_task_runs_unless_a_count_or_its_hard_end_forbids_it(
    fields: dict[str, object], cause: Cause | None
):
    task = a_task(TaskState.PROCESSING, **fields)

    assert before_run(task, Recovery(attempts=3, crashes=10), NOON) is cause


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"attempts": 0}, "Recovery.attempts is 0; it must lie between 1 and 1,000"),
        ({"crashes": 1001}, "Recovery.crashes is 1001"),
        ({"undo_attempts": -1}, "Recovery.undo_attempts is -1"),
        ({"then": "panic"}, "Recovery.then is 'panic'; it must be one of 'undo', 'wait', 'error'"),
        ({"wait": "a while"}, "Recovery.wait is 'a while'"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(wrong: dict[str, object], complaint: str):
    with pytest.raises(InvalidRequest, match=complaint):
        Recovery(**wrong)  # type: ignore[arg-type]
