"""How an operator, or the supervisor, holds back a workflow or an agent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

replace = msgspec.structs.replace


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


class Controls:
    """Every control in force, as last read."""

    def __init__(self, controls: Iterable[Control] = ()) -> None:
        self._by_name = {(one.subject, one.name): one for one in controls}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Controls) and self._by_name == other._by_name

    __hash__ = None  # type: ignore[assignment]

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
