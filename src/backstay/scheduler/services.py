"""What a run is given to work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, Protocol

from backstay.clock import Alarms, Clock
from backstay.definitions.agents import Step
from backstay.definitions.registry import Registry
from backstay.definitions.workflows import Workflow
from backstay.domain.instants import micros_in
from backstay.domain.lease import Owner
from backstay.domain.task import TaskRecord
from backstay.messaging.wire import AgentLink
from backstay.scheduler.mailbox import Mailbox
from backstay.scheduler.workflow_loop import WorkflowLoop
from backstay.settings import Settings
from backstay.store.base import Settle, Transition
from backstay.tracing import Tracing


class Desk(Protocol):
    """The scheduler, as its runs see it."""

    def look_again(self, task_key: int) -> None:
        """Read how a task and its children stand, and tell its run."""

    def move_child(
        self, child_id: str, *, undo: bool, then: Callable[[TaskRecord], None] | None = None
    ) -> None:
        """Have a child cancelled, or undone; ``then`` hears how it stands after that."""

    def closed(self, task_key: int) -> None:
        """A run is over, or is no longer ours."""


class StepTimes(dict[Step[..., Any], int]):
    """How long an attempt of each step may take, in microseconds; worked out once."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def __missing__(self, step: Step[..., Any]) -> int:
        self[step] = time = micros_in(step.complete_by or self._settings.agent_complete_by)
        return time


class OpenWaits:
    """How many sleeps, signals and children are waited for in memory."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open = 0


@dataclass(frozen=True, slots=True)
class Services:
    """Handed to every run of a scheduler."""

    owner: Owner
    registry: Registry
    agents: AgentLink
    # Where the answers come in to what was asked of agents in other processes, by whomever.
    mail: Mailbox
    clock: Clock
    alarms: Alarms
    random: Random
    settings: Settings
    apply: Callable[[Transition, Settle], None]
    soon: Callable[[Callable[[], Any]], Any]
    desk: Desk
    workflow_loop: WorkflowLoop
    micros_for: StepTimes
    waits: OpenWaits
    tracing: Tracing | None

    def time_for_step(self, step: Step[..., Any]) -> timedelta:
        """How long an attempt of ``step`` may take."""
        return step.complete_by or self.settings.agent_complete_by

    def time_for_undo(self, step: Step[..., Any] | None) -> timedelta:
        undo = None if step is None else step.undo_of
        return (undo and undo.complete_by) or self.settings.undo_complete_by

    def time_for_run(self, workflow: Workflow[..., Any]) -> timedelta:
        return time_for_run(workflow, self.settings)


def time_for_run(workflow: Workflow[..., Any], settings: Settings) -> timedelta:
    """How long a claimed run of ``workflow`` may take."""
    return workflow.complete_by or settings.workflow_complete_by
