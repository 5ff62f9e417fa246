"""How an operator, or the supervisor, holds back a workflow or an agent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec


class Subject(StrEnum):
    """What can be held back."""

    WORKFLOW = "workflow"  # paused: none of its tasks is claimed
    AGENT = "agent"  # paused: none of its steps is begun


class Forced(StrEnum):
    """A breaker that a person holds in place."""

    OPEN = "open"
    CLOSED = "closed"


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """How one workflow or agent is held back; without a row in the store, it is not."""

    subject: Subject
    name: str
    paused: bool = False
    breaker: Forced | None = None
    by: str
    reason: str | None = None
    at: datetime

    @property
    def idle(self) -> bool:
        """Whether it holds nothing back any more."""
        return not self.paused and self.breaker is None

    @property
    def shuts(self) -> bool:
        """Whether nothing may begin."""
        return self.paused or self.breaker is Forced.OPEN


class Controls:
    """Every control in force, as last read."""

    def __init__(self, controls: Iterable[Control] = ()) -> None:
        self._by_name = {(one.subject, one.name): one for one in controls}

    def of(self, subject: Subject, name: str) -> Control | None:
        return self._by_name.get((subject, name))

    def pause_of(self, subject: Subject, name: str) -> Control | None:
        """The control that pauses it, if one does."""
        control = self.of(subject, name)
        return control if control is not None and control.paused else None

    def names(self, subject: Subject) -> set[str]:
        return {name for one, name in self._by_name if one is subject}


def facts(control: Control | None) -> dict[str, Any] | None:
    """What the audit trail keeps of a control."""
    if control is None or control.idle:
        return None
    return {"paused": control.paused, "breaker": control.breaker, "by": control.by, "reason": control.reason}


# What follows from a change of controls


def held_back(control: Control, known: Control | None) -> Control | None:
    """The pause that is to be, or ``None`` when there is one already. A forced breaker stays as it is."""
    if known is not None and known.paused:
        return None
    return control if known is None else msgspec.structs.replace(control, breaker=known.breaker)


def is_forgiven(before: Control | None, after: Control) -> bool:
    """Whether a person ended a pause: what was recovered before that is no reason for the next one."""
    return before is not None and before.paused and not after.paused


def workflow_goes_on(before: Control | None, after: Control) -> bool:
    """Whether there are tasks to be claimed that nobody was to claim."""
    return after.subject is Subject.WORKFLOW and _goes_on(before, after)


def agent_goes_on(before: Control | None, after: Control) -> bool:
    """Whether the tasks are to be called that were parked because of an agent."""
    return after.subject is Subject.AGENT and (_goes_on(before, after) or _is_let_in(before, after))


def _goes_on(before: Control | None, after: Control) -> bool:
    return before is not None and before.shuts and not after.shuts


def _is_let_in(before: Control | None, after: Control) -> bool:
    """Whether a breaker that may have opened by itself is held closed from now on."""
    was_closed = before is not None and before.breaker is Forced.CLOSED
    return after.breaker is Forced.CLOSED and not was_closed and not after.paused
