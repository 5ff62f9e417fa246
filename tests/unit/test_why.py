"""One sentence about what a task waits for, and the command that would move it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from backstay.domain.control import Control, Controls, Forced, Subject
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure, StepKind, StepRecord, UndoKind
from backstay.domain.task import Request, TaskRecord
from backstay.domain.why import Reason, Surroundings, explain
from backstay.testing.records import NOON, a_step, a_task, a_wait, replace

SOON = NOON + timedelta(minutes=5)
FAILED = Failure("Down", "no route", step="ship:1")
SLEEP = a_wait(StepKind.SLEEP, "sleep:1", complete_by=SOON)
SIGNAL = a_wait(StepKind.SIGNAL, "wait_for-approval:1", operation="approval")
CHILD = a_wait(StepKind.CHILD, "pack:1", operation="t:pack:1")
MANUAL = a_step(StepState.UNDOING, key="ship:1", undo=UndoKind.MANUAL)


def why(
    task: TaskRecord, steps: Sequence[StepRecord] = (), *, runnable: bool = True, any_scheduler: bool = True
) -> Reason:
    return explain(task, steps, Surroundings(now=NOON, schedulers=int(any_scheduler), runnable=runnable))


SITUATIONS: dict[str, tuple[TaskRecord, list[StepRecord], str, str | None]] = {
    "queued": (
        a_task(TaskState.PENDING),
        [],
        "it is queued; a scheduler will claim it when it has room",
        None,
    ),
    "being run": (
        a_task(TaskState.PROCESSING, locked_by="host-1"),
        [a_step()],
        "scheduler host-1 is running its workflow",
        None,
    ),
    "being stopped": (
        a_task(TaskState.PROCESSING, locked_by="host-1", request=Request.UNDO),
        [a_step(StepState.RUNNING)],
        "undo was requested; its scheduler host-1 is stopping it",
        None,
    ),
    "an agent works": (
        a_task(TaskState.PROCESSING),
        [a_step(StepState.RUNNING, key="ship:1", attempt=2, complete_by=SOON)],
        "agent 'bank' works on step ship:1 (attempt 2) until 2030-01-01T12:05:00Z",
        None,
    ),
    "an agent is silent": (
        a_task(TaskState.PROCESSING),
        [a_step(StepState.RUNNING, key="ship:1", complete_by=NOON - timedelta(seconds=1))],
        "step ship:1 passed its complete-by 2030-01-01T11:59:59Z; it will be recovered",
        None,
    ),
    "an agent has no room": (
        a_task(TaskState.PROCESSING),
        [a_step(StepState.PENDING, key="ship:1")],
        "step ship:1 waits for a free slot of agent 'bank'",
        None,
    ),
    "several things at once": (
        a_task(TaskState.PROCESSING),
        [SLEEP, SIGNAL, CHILD],
        "it sleeps until 2030-01-01T12:05:00Z; it waits for signal 'approval'; it waits for its child pack:1",
        "backstay tasks why t:pack:1",
    ),
    "waits for a signal": (
        a_task(TaskState.WAITING),
        [SIGNAL],
        "it waits for signal 'approval'",
        "backstay tasks signal t approval JSON",
    ),
    "waits for one of two signals, not for ever": (
        a_task(TaskState.WAITING, wake_at=SOON),
        [SIGNAL, a_wait(StepKind.SIGNAL, "wait_for-refusal:1", operation="refusal")],
        "it waits for signal 'approval' or 'refusal' (until 2030-01-01T12:05:00Z)",
        "backstay tasks signal t approval JSON",
    ),
    "waits for children": (
        a_task(TaskState.WAITING),
        [CHILD, a_wait(StepKind.CHILD, "pack:2")],
        "it waits for its children pack:1, pack:2",
        "backstay tasks why t:pack:1",
    ),
    "sleeps": (
        a_task(TaskState.WAITING, wake_at=SOON),
        [SLEEP],
        "it sleeps until 2030-01-01T12:05:00Z",
        None,
    ),
    "a step is parked": (
        a_task(TaskState.WAITING, wake_at=SOON, error=FAILED),
        [a_step(StepState.PENDING, key="ship:1")],
        (
            "step ship:1 is parked until 2030-01-01T12:05:00Z"
            " (its breaker was open, or it failed after Down: no route)"
        ),
        "backstay tasks resubmit t",
    ),
    "rests": (
        a_task(TaskState.WAITING, wake_at=SOON, error=FAILED),
        [a_step()],
        "it rests until 2030-01-01T12:05:00Z after Down: no route",
        "backstay tasks resubmit t",
    ),
    "stopped at a step": (
        a_task(TaskState.ERROR, error=FAILED),
        [],
        "stopped at step ship:1: Down: no route; an operator must act",
        "backstay tasks resubmit t",
    ),
    "stopped in its own code": (
        a_task(TaskState.ERROR, error=Failure("KeyError", "'x'")),
        [],
        "stopped: KeyError: 'x'; an operator must act",
        "backstay tasks resubmit t",
    ),
    "being undone, step by step": (
        a_task(TaskState.UNDOING, locked_by="host-1"),
        [a_step(StepState.UNDOING, key="ship:1"), a_step(StepState.COMPLETED)],
        "its steps are being undone; now ship:1",
        None,
    ),
    "a child being undone": (
        a_task(TaskState.UNDOING, locked_by="host-1"),
        [replace(CHILD, state=StepState.UNDOING)],
        "its steps are being undone; now its child pack:1",
        "backstay tasks why t:pack:1",
    ),
    "an undo failed, and said why": (
        a_task(TaskState.UNDO_FAILED),
        [a_step(StepState.UNDO_FAILED, key="ship:1", error=FAILED)],
        "the undo of ship:1 keeps failing (Down: no route); an operator must act",
        "backstay tasks undo t",
    ),
    "being undone": (
        a_task(TaskState.UNDOING, locked_by="host-1"),
        [a_step(StepState.COMPLETED)],
        "its steps are being undone",
        None,
    ),
    "its undo needs a person": (
        a_task(TaskState.UNDOING, parked=True),
        [MANUAL],
        "the undo of ship:1 is a person's work; confirm it when it is done",
        "backstay tasks complete-step t ship:1",
    ),
    "its undo waits for an attempt that may be at work": (
        a_task(TaskState.UNDOING, parked=True, wake_at=SOON),
        [a_step(StepState.RUNNING)],
        "its undo goes on at 2030-01-01T12:05:00Z, when no attempt can be at work any more",
        None,
    ),
    "its undo is stuck": (
        a_task(TaskState.UNDO_FAILED),
        [a_step(StepState.UNDO_FAILED, key="ship:1"), a_step(StepState.UNDONE)],
        "the undo of ship:1 keeps failing; an operator must act",
        "backstay tasks undo t",
    ),
    "processed": (a_task(TaskState.PROCESSED), [], "it is processed; nothing is left to do", None),
    "undone": (
        a_task(TaskState.UNDONE),
        [a_step(StepState.UNDONE), SLEEP],
        "it is undone; nothing is left to do",
        None,
    ),
    "undone, as far as an undo was declared": (
        a_task(TaskState.UNDONE),
        [a_step(StepState.UNDONE), a_step(StepState.COMPLETED, key="ship:1", undo=None)],
        "it is undone; no undo is declared for ship:1",
        None,
    ),
    "cancelled": (a_task(TaskState.CANCELLED), [], "it is cancelled; nothing is left to do", None),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_each_situation_is_one_sentence_and_at_most_one_command(situation: str):
    task, steps, reason, command = SITUATIONS[situation]

    assert why(task, steps) == Reason(reason, command)


def test_every_state_is_explained():
    assert {task.state for task, *_ in SITUATIONS.values()} == set(TaskState)


def test_a_task_whose_scheduler_died_and_has_no_successor_says_so():
    reason = why(a_task(TaskState.PROCESSING, locked_by="host-1"), any_scheduler=False)

    assert reason.reason.startswith("scheduler host-1 is gone, and no other is running on this store")


def test_a_task_on_a_store_without_schedulers_says_so():
    reason = why(a_task(TaskState.PENDING), any_scheduler=False, runnable=False)

    assert reason.reason.startswith("no scheduler is running on this store")


@pytest.mark.parametrize("state", [TaskState.PENDING, TaskState.UNDOING])
def test_a_task_whose_code_no_live_scheduler_has_says_which_version_is_missing(state: TaskState):
    reason = why(a_task(state, version=7), runnable=False)

    assert "workflow 'ship' version 7" in reason.reason
    assert reason.reason.endswith("start a process with that version of the code")


def test_a_child_is_named_by_its_id_even_if_its_parent_chose_that():
    named = a_wait(StepKind.CHILD, "pack:1", operation="my-child")

    assert why(a_task(TaskState.WAITING), [named]).command == "backstay tasks why my-child"


QUEUED_STEP = a_step(StepState.PENDING, key="ship:1")


def held(subject: Subject, name: str, **how: object) -> Controls:
    control = Control(subject=subject, name=name, by="ada", reason="audit", at=NOON)
    return Controls([replace(control, **how)])


def around(**more: object) -> Surroundings:
    return Surroundings(now=NOON, schedulers=1, runnable=True, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [TaskState.PENDING, TaskState.UNDOING])
def test_a_task_of_a_paused_workflow_says_who_paused_it_and_why(state: TaskState):
    controls = held(Subject.WORKFLOW, "ship", paused=True)

    reason = explain(a_task(state), [], around(controls=controls))

    assert "workflow 'ship' is paused by ada since 2030-01-01T12:00:00Z (audit)" in reason.reason
    assert reason.command == "backstay workflows resume ship"


@pytest.mark.parametrize("state", [TaskState.PROCESSING, TaskState.WAITING])
@pytest.mark.parametrize(
    ("surroundings", "sentence", "command"),
    [
        (
            around(controls=held(Subject.AGENT, "bank", paused=True)),
            "step ship:1 waits because agent 'bank' is paused by ada since 2030-01-01T12:00:00Z (audit)",
            "backstay agents resume bank",
        ),
        (
            around(controls=held(Subject.AGENT, "bank", breaker=Forced.OPEN)),
            "step ship:1 waits because ada holds the breaker of agent 'bank' open",
            "backstay agents breaker bank auto",
        ),
        (
            around(agents=frozenset({"bank"}), open_breakers={"bank": SOON}),
            "step ship:1 waits for agent 'bank', whose breaker is open until 2030-01-01T12:05:00Z",
            "backstay agents breaker bank closed",
        ),
        (
            around(agents=frozenset({"post"})),
            "step ship:1 waits for agent 'bank', which no live process has; start one with the role agents",
            "backstay serve MODULE:APP --roles agents",
        ),
        (
            around(hosted=False),
            "step ship:1 waits for agent 'bank', which no live process has; start one with the role agents",
            "backstay serve MODULE:APP --roles agents",
        ),
    ],
)
def test_a_step_that_its_agent_would_not_begin_says_what_holds_it_back(
    state: TaskState, surroundings: Surroundings, sentence: str, command: str | None
):
    assert explain(a_task(state), [QUEUED_STEP], surroundings) == Reason(sentence, command)


def test_what_holds_back_another_agent_says_nothing_about_this_step():
    controls = held(Subject.AGENT, "post", paused=True)

    reason = explain(a_task(TaskState.PROCESSING), [QUEUED_STEP], around(controls=controls))

    assert reason.reason == "step ship:1 waits for a free slot of agent 'bank'"
