"""The trail of what operators did: who, when, what, to what, why, and what it changed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from backstay.domain.task import TaskRecord
from backstay.domain.text import is_text
from backstay.errors import InvalidInput

REASON_LENGTH_MAX: Final = 1_000

# The trail tells of these by itself.
_BESIDE_THE_CHANGE: Final = frozenset({"by", "reason"})


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator is about to do. It is recorded in the commit that does it, or not at all."""

    who: str
    action: str
    # ``task:delivery-17``, ``agent:drone``, ``token:me``
    target: str
    # The one step of the task that is meant, if it is one.
    step: str | None = None
    reason: str | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the trail."""

    id: int
    at: datetime
    who: str
    action: str
    target: str
    reason: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def facts(task: TaskRecord) -> dict[str, Any]:
    """What the trail keeps of a task: how it stood, never what it holds."""
    return {
        "state": task.state.value,
        "request": None if task.request is None else task.request.value,
        "locked_by": task.locked_by,
        "failure_count": task.failure_count,
        "error": None if task.error is None else task.error.type,
    }


def changed(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[tuple[str, Any, Any]]:
    """The facts that are others afterwards: the name of each, and both of its values."""
    earlier, later = before or {}, after or {}
    return [
        (name, earlier.get(name), later.get(name))
        for name in {**earlier, **later}
        if name not in _BESIDE_THE_CHANGE and earlier.get(name) != later.get(name)
    ]


def checked_reason(reason: object) -> str | None:
    """Return ``reason`` if it can be recorded."""
    if reason is None:
        return None
    if not is_text(reason) or len(reason) > REASON_LENGTH_MAX:
        raise InvalidInput(f"reason must be text of at most {REASON_LENGTH_MAX:,} characters, without NUL")
    return reason
