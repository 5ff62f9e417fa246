"""What becomes of firings that are written together, whatever the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from backstay.domain.alert import AlertKind, NewAlert, of_job
from backstay.domain.jobs.outcomes import finished
from backstay.domain.jobs.records import JobRecord, JobState
from backstay.domain.task import NewTask
from backstay.errors import BackstayError, Conflict, IdConflict, InvalidRequest, LeaseLost
from backstay.observe import alert
from backstay.store.advancing import Outcome
from backstay.store.job_rows import Excess, JobShape, Kept, trimmed
from backstay.store.jobs import Firing
from backstay.store.rows import Row

#: So long a firing is put off that cannot be written: it must not be tried all the time, before all others.
UNFIT_PAUSE: Final = timedelta(minutes=1)

Write = Callable[[Sequence[Firing]], Awaitable[list[bool]]]


async def fire_all(firings: Sequence[Firing], write: Write, *, now: datetime) -> list[bool]:
    """All at once; in halves when something is wrong with one of them: the others must not suffer."""
    try:
        return await write(firings)
    except LeaseLost:
        raise
    except (Conflict, InvalidRequest) as error:
        if len(firings) == 1:
            await _put_off(firings[0], write, now=now, error=error)
            return [False]
    half = len(firings) // 2
    first = await fire_all(firings[:half], write, now=now)
    return first + await fire_all(firings[half:], write, now=now)


async def _put_off(firing: Firing, write: Write, *, now: datetime, error: BackstayError) -> None:
    job = firing.seen
    unfit = of_job(AlertKind.JOB_UNFIT, job.collection.name, job.name, message=str(error))
    alert(unfit.kind, job=f"{job.collection.name}/{job.name}", message=error)
    await write([Firing(seen=job, job=job, again_at=now + UNFIT_PAUSE, alerts=[unfit])])


class Firings:
    """Firings of one caller. Only those count whose jobs are still as they were seen."""

    def __init__(
        self, firings: Sequence[Firing], shape: JobShape, *, now: datetime, history_max: int
    ) -> None:
        self._firings = firings
        self._shape = shape
        self.now = now
        self._history_max = history_max
        # By the keys of their jobs.
        self._fired: dict[int, Firing] = {}
        self._kept: dict[int, Kept] = {}
        #: How the jobs stand afterwards, as rows; and what is too much of their histories.
        self.standings: list[Row] = []
        self.excess: list[Excess] = []
        #: Of each firing whether its job was as seen.
        self.answers: list[bool] = []

    @property
    def keys(self) -> list[int]:
        return sorted({one.seen.key for one in self._firings})

    def compare(self, found: Iterable[Kept]) -> bool:
        """Whether there is anything to write, given the jobs as they are."""
        kept = {one.job.key: one for one in found}
        for firing in self._firings:
            # Of two that fire the same job the first does.
            there = kept.pop(firing.seen.key, None)
            if there is None or not _is_as_seen(there, firing.seen):
                self.answers.append(False)
                continue
            self._fired[firing.seen.key] = firing
            self._kept[firing.seen.key] = _fired(there, firing)
            self.answers.append(True)
        self.standings, self.excess = trimmed(
            [(one, self._history_max) for one in self._kept.values()], self._shape
        )
        return bool(self._fired)

    @property
    def tasks(self) -> list[tuple[NewTask, datetime]]:
        return [(task, self.now) for one in self._fired.values() for task in one.tasks]

    @property
    def job_tasks(self) -> list[Row]:
        return [(key, task.id) for key, one in self._fired.items() for task in one.tasks]

    @property
    def alerts(self) -> list[tuple[NewAlert, datetime]]:
        return [(alert, self.now) for one in self._fired.values() for alert in one.alerts]

    @property
    def gaps(self) -> list[Row]:
        return [
            self._shape.gap_row(self._kept[key].job, entry)
            for key, one in self._fired.items()
            for entry in one.entries
        ]


def has_new(outcomes: Iterable[Outcome]) -> bool:
    """Whether one of the tasks is new; an id that is known counts as entered. Raises why one could not be."""
    is_new = False
    for outcome in outcomes:
        if isinstance(outcome, BackstayError) and not isinstance(outcome, IdConflict):
            raise outcome
        is_new = is_new or outcome is True
    return is_new


def _is_as_seen(kept: Kept, seen: JobRecord) -> bool:
    return kept.armed_at is not None and _what_is_compared(kept.job) == _what_is_compared(seen)


def _what_is_compared(job: JobRecord) -> tuple[object, ...]:
    # With the last two what is fired is the job as somebody last wrote it, and fired it.
    return job.uid, job.generation, job.next_at, job.updated_at, job.occurrences


def _fired(kept: Kept, firing: Firing) -> Kept:
    """The job afterwards. What was counted meanwhile stays, and may make it the end of the job."""
    after = firing.job
    job = finished(
        replace(
            kept.job,
            next_at=after.next_at,
            fired_at=after.fired_at,
            occurrences=after.occurrences,
            state=after.state,
        )
    )
    is_due = job.state is JobState.ENABLED and job.next_at is not None
    armed_at = (firing.again_at or job.next_at) if is_due else None
    return Kept(job, armed_at, kept.entries + len(firing.entries))
