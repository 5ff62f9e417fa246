"""What a tick makes of a job whose next instant has come. Pure: the same arguments, the same tick.

      next_at                                           now
    ────●─────────●─────────●─────────●─────────●────────┼───▶
        └── missed: a gap ──┘         └ start ──┘

``catch_up`` chooses among the instants that have come; ``overlap`` says what becomes of them while an earlier
occurrence is at work. Whatever is neither started nor left due is in exactly one gap, and only what starts
uses up ``count``.

| overlap | while an earlier one is at work                           | several chosen at once         |
|---------|-----------------------------------------------------------|--------------------------------|
| skip    | a gap; with catch-up *all*, what is late already waits    | one, the others stay due       |
| queue   | everything stays due                                      | one, the others stay due       |
| allow   | as if there were none                                     | all of them, at once           |
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from backstay.domain.alert import AlertKind, NewAlert, of_job
from backstay.domain.instants import instant, micros
from backstay.domain.jobs.messages import not_caught_up, overlapped, unreadable
from backstay.domain.jobs.outcomes import abandoned, finished
from backstay.domain.jobs.records import (
    CatchUp,
    EntryStatus,
    HistoryEntry,
    JobRecord,
    JobState,
    Occurrence,
    Overlap,
)
from backstay.domain.recurrence import Timetable, read_timing
from backstay.errors import InvalidJob

_MOMENT: Final = timedelta(microseconds=1)

replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for all jobs. What is at most ``grace`` late is on time."""

    grace: timedelta
    catch_up_max: int
    immediately: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """The job as it is afterwards, what starts, and what is told of instants that do not."""

    job: JobRecord
    starts: tuple[Occurrence, ...] = ()
    gaps: tuple[HistoryEntry, ...] = ()
    # Of the instants in gaps those that nobody was there for, and that are not caught up.
    missed: int = 0

    @property
    def alerts(self) -> list[NewAlert]:
        """Whom it calls a person for: a job that cannot be read, or did not run when it should have."""
        failed = [one for one in self.gaps if one.status is not EntryStatus.POSTPONED]
        found = [_alert(AlertKind.JOB_UNREADABLE, self.job, one.message) for one in failed]
        if self.missed:
            found += [_alert(AlertKind.OCCURRENCES_MISSED, self.job, one.message) for one in self.gaps]
        return found


@dataclass(frozen=True, slots=True)
class Due:
    """The instants of a job that have come, numbered from 0; they may be very many."""

    table: Timetable
    first: datetime
    now: datetime

    @property
    def number(self) -> int:
        # When the next one is due depends on when this one starts.
        return 1 if self.table.drifts else 1 + self.table.count(self.first, self.now)

    def __getitem__(self, place: int) -> datetime:
        """Found by counting: takes microseconds, however many there are."""
        if place == 0:
            return self.first
        moments = range(micros(self.first), micros(self.now) + 1)
        found = bisect_left(moments, place, key=lambda at: self.table.count(self.first, instant(at)))
        return instant(moments[found])

    def since(self, moment: datetime) -> int:
        """The place of the first that is not before ``moment``."""
        if self.first >= moment:
            return 0
        return 1 if self.table.drifts else 1 + self.table.count(self.first, moment - _MOMENT)


def tick(job: JobRecord, *, at_work: int, now: datetime, rules: Rules) -> Tick | None:
    """What becomes of the instants of ``job`` that have come; None where they wait, or none has come."""
    if job.next_at is None or job.next_at > now:
        return None
    try:
        timing = read_timing(job.definition)
        due = Due(Timetable(timing, created=job.created_at, delay=rules.immediately), job.next_at, now)
    except InvalidJob as error:
        return _broken(job, error, now)
    late = due.since(now - rules.grace)
    if at_work and job.overlap is not Overlap.ALLOW:
        waits = job.overlap is Overlap.QUEUE or (job.catch_up is CatchUp.ALL and late > 0)
        return None if waits else _skipped(job, due)
    chosen = _chosen(job, due.number, late=late, rules=rules)
    return _started(job, due, chosen[: _left(job, due.table)], at_work=at_work)


def _chosen(job: JobRecord, number: int, *, late: int, rules: Rules) -> range:
    """The places of those that are to start, now or in their turn: the last ones, as many as are allowed."""
    first = {CatchUp.SKIP: late, CatchUp.ONE: number - 1, CatchUp.ALL: 0}[job.catch_up]
    return range(max(first, number - rules.catch_up_max), number)


def _started(job: JobRecord, due: Due, chosen: range, *, at_work: int) -> Tick:
    """Start what was chosen, or the first of them; what comes before is a gap."""
    starting = chosen if job.overlap is Overlap.ALLOW else chosen[:1]
    in_turn = chosen[len(starting) :]
    starts = tuple(
        Occurrence(
            job_key=job.key,
            uid=job.uid,
            generation=job.generation,
            at=due[place],
            number=job.occurrences + number,
        )
        for number, place in enumerate(starting, start=1)
    )
    ran = job.occurrences + len(starts)
    after = replace(
        job,
        next_at=due[in_turn[0]] if in_turn else due.table.next_after(due.now, ran=ran),
        fired_at=starts[-1].at if starts else job.fired_at,
        occurrences=ran,
    )
    # A job whose last occurrence starts ends as that does.
    after = after if starts else _ended(after, at_work=at_work)
    return Tick(job=after, starts=starts, gaps=_missed(job, due, chosen.start), missed=chosen.start)


def _left(job: JobRecord, table: Timetable) -> int | None:
    """How many occurrences ``count`` allows yet."""
    recurrence = table.timing.recurrence
    if recurrence is None or recurrence.count is None:
        return None
    return max(0, recurrence.count - job.occurrences)


def _missed(job: JobRecord, due: Due, number: int) -> tuple[HistoryEntry, ...]:
    if number == 0:
        return ()
    return (_gap(job, due, number, not_caught_up(number, due[0], due[number - 1], job.catch_up)),)


def _skipped(job: JobRecord, due: Due) -> Tick:
    """None of them starts: an earlier occurrence is at work."""
    number = due.number
    after = replace(job, next_at=due.table.next_after(due.now, ran=job.occurrences))
    return Tick(
        job=_ended(after, at_work=1),
        gaps=(_gap(job, due, number, overlapped(number, due[0], due[number - 1])),),
    )


def _gap(job: JobRecord, due: Due, number: int, message: str) -> HistoryEntry:
    return _entry(job, due.now, EntryStatus.POSTPONED, message, instants=number)


def _entry(
    job: JobRecord, now: datetime, status: EntryStatus, message: str, *, instants: int = 1
) -> HistoryEntry:
    assert job.next_at is not None
    return HistoryEntry(
        status=status,
        expected_at=job.next_at,
        started_at=now,
        ended_at=now,
        message=message,
        repeat=job.occurrences + 1,
        instants=instants,
    )


def _ended(job: JobRecord, *, at_work: int) -> JobRecord:
    """A job that starts nothing: if nothing is to come either, it is over, or soon will be."""
    if job.next_at is not None:
        return job
    if job.fired_at is None:
        return replace(job, state=JobState.COMPLETED)
    return finished(job) if at_work else abandoned(job)


def _broken(job: JobRecord, error: InvalidJob, now: datetime) -> Tick:
    """A definition that this release cannot read must not keep the others waiting."""
    return Tick(
        job=replace(job, next_at=None, state=JobState.FAULTED),
        gaps=(_entry(job, now, EntryStatus.FAILED, unreadable(str(error))),),
    )


def _alert(kind: AlertKind, job: JobRecord, message: str) -> NewAlert:
    return of_job(kind, job.collection.name, job.name, message=message)
