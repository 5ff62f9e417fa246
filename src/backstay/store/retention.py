"""What a state store does to stay small: tell what has outlived its time, and forget it.

Looking and forgetting are two verbs, so that a look over a million tasks holds nobody up. Whatever was seen
is judged again in the transaction that forgets it: what an operator has just begun to undo stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec

from backstay.domain.audit import Act
from backstay.domain.lease import Leader

#: With what a task owns, in this order; the task itself goes last.
BELONGINGS: Final = ("prune_steps", "prune_signals", "prune_payloads", "prune_told", "prune_requests")


class Kept(StrEnum):
    """What is kept for a while."""

    # Those that ended, with all that belongs to them.
    TASKS = "tasks"
    # Those that somebody has taken up.
    ALERTS = "alerts"


#: By which query they are looked at.
LOOKS: Final = {Kept.TASKS: "tasks_from", Kept.ALERTS: "alerts_from"}


class Outlived(msgspec.Struct, frozen=True):
    """What one look found."""

    # The keys of what may go.
    keys: list[int]
    # The last that was looked at; None: all that follows is too young.
    through: int | None


class Retention(Protocol):
    """Each method is one transaction: it happens entirely or not at all."""

    async def outlived(self, kind: Kept, *, before: datetime, after: int, limit: int) -> Outlived:
        """Look at the next ``limit`` behind the key ``after``, oldest first, for those that may go.

        A task may go that was processed, undone or cancelled, and last changed, ``before``; if the task that
        started it is gone, and all tasks that it started could go by their states and times as well. What
        waits for a person (``error``, ``undo_failed``) stays, and so does an alert that nobody has taken up.
        The newest of all stays too: its key is not given to another.
        """

    async def prune(
        self, kind: Kept, keys: Sequence[int], *, before: datetime, leader: Leader | None, now: datetime
    ) -> int:
        """Forget those of ``keys`` that may still go, with all that belongs to them; how many that were.

        Under a leader of the supervisors: raises LeaseLost when another leads by now. Without one it is a
        person who has it done. Who else is just writing one of them is not waited for.
        """

    async def record_pruning(self, act: Act, *, before: datetime, now: datetime) -> None:
        """Leave a line in the audit trail: a person has all forgotten that ended ``before``."""


def outlived(rows: Sequence[Sequence[Any]], *, before: Any, limit: int) -> Outlived:
    """What a look found. ``rows``: of each its key, when it was made, and whether it may go; oldest first."""
    old = [row for row in rows if row[1] < before]
    ends = len(old) < len(rows) or len(rows) < limit
    return Outlived([row[0] for row in old if row[2]], None if ends or not old else old[-1][0])
