"""Restart intensity: what has to be recovered again and again is held back instead.

A workflow that kills its process, or an agent whose steps always hang, would be taken up and lost for
ever. More than so many recoveries within a while, and a person has to look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from backstay.domain.alert import PAUSED, NewAlert
from backstay.domain.audit import Act
from backstay.domain.control import Control, Subject
from backstay.domain.target import control_target


class Excess(NamedTuple):
    """What was recovered too often."""

    subject: Subject
    name: str
    number: int


def excesses(recoveries: Iterable[tuple[str, str | None, int]], *, most: int) -> list[Excess]:
    """What exceeds ``most``, of recoveries counted by (workflow, agent or None, number).

    A step that hung is its agent's doing, in whatever workflow; all else is the workflow's.
    """
    counts: Counter[tuple[Subject, str]] = Counter()
    for workflow, agent, number in recoveries:
        culprit = (Subject.WORKFLOW, workflow) if agent is None else (Subject.AGENT, agent)
        counts[culprit] += number
    return [Excess(subject, name, number) for (subject, name), number in counts.items() if number > most]


def pausing(control: Control, message: str) -> tuple[Act, NewAlert]:
    """How the trail and a person are told of what is held back."""
    target = control_target(control.subject, control.name)
    act = Act(who=control.by, action="pause", target=target, reason=control.reason)
    return act, NewAlert(kind=PAUSED[control.subject], message=message, target=target)
