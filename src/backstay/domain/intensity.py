"""Restart intensity: what has to be recovered again and again is held back instead.

A workflow that kills its process, or an agent whose steps always hang, would be taken up and lost for
ever. More than so many recoveries within a while, and a person has to look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from backstay.domain.control import Subject


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
