"""What becomes of attempts that are recorded together, whatever the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from backstay.domain.jobs.outcomes import counted
from backstay.store.job_rows import Excess, JobShape, Kept, trimmed
from backstay.store.jobs import Attempt
from backstay.store.rows import Row

#: So many columns of an entry make an attempt the one that it is.
_IDENTITY: Final = 6


class Asked(NamedTuple):
    """An attempt, and how many entries of its job are kept."""

    attempt: Attempt
    history_max: int


class Recording:
    """Attempts of several callers. Only those count that are new, of jobs that are there."""

    def __init__(self, asked: Sequence[tuple[Asked, datetime]], shape: JobShape) -> None:
        self._asked = [one for one, _ in asked]
        self._shape = shape
        # The latest of their times is the one that it is.
        self.now = max(now for _, now in asked)
        self._kept: dict[int, Kept] = {}
        # The first to say each, by the place among those that were asked.
        self._first: dict[tuple[Any, ...], int] = {}
        self._new: set[int] = set()
        #: How the jobs stand afterwards, as rows; and what is too much of their histories.
        self.standings: list[Row] = []
        self.excess: list[Excess] = []

    @property
    def keys(self) -> list[int]:
        return sorted({one.attempt.occurrence.job_key for one in self._asked})

    def rows(self, found: Iterable[Kept]) -> list[Row]:
        """The entries of attempts whose jobs are there, given the jobs as they are."""
        self._kept = {one.job.key: one for one in found}
        rows: list[Row] = []
        for place, (attempt, _) in enumerate(self._asked):
            occurrence = attempt.occurrence
            kept = self._kept.get(occurrence.job_key)
            if kept is None or kept.job.uid != occurrence.uid:
                continue
            row = self._shape.attempt_row(occurrence, attempt.entry)
            if self._first.setdefault(_identity(row), place) == place:
                rows.append(row)
        return rows

    def entered(self, new: Iterable[Row]) -> bool:
        """Count those that are new, each by what makes it the one that it is; whether there are any."""
        self._new = {self._first[_identity(row)] for row in new}
        keeps: dict[int, int] = {}
        for place in sorted(self._new):
            attempt, history_max = self._asked[place]
            key = attempt.occurrence.job_key
            kept = self._kept[key]
            job = counted(kept.job, attempt.occurrence, attempt.entry, final=attempt.final)
            self._kept[key] = kept._replace(job=job, entries=kept.entries + 1)
            keeps[key] = min(history_max, keeps.get(key, history_max))
        changed = [(self._kept[key], keeps[key]) for key in sorted(keeps)]
        self.standings, self.excess = trimmed(changed, self._shape)
        return bool(self._new)

    @property
    def answers(self) -> list[bool]:
        return [place in self._new for place in range(len(self._asked))]


def _identity(row: Row) -> tuple[Any, ...]:
    return tuple(row[:_IDENTITY])
