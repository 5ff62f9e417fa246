"""What a state store keeps of jobs.

Definitions are changed by decisions that see what is there (``Decide…``) inside the transaction that writes
the outcome: two who change the same collection do so one after the other, so that no quota is ever exceeded.
A decision is pure: it may be asked again before its outcome is written. Instants are claimed by comparison:
``fire`` writes only where the job is still as it was seen.

Secrets lie apart, and sealed. Of all records that are given here only those that a decision sees hold them;
one that cannot be opened is LOST there, and left as it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

import msgspec

from backstay.domain.alert import NewAlert
from backstay.domain.audit import Act
from backstay.domain.jobs.records import (
    ActionName,
    Collection,
    CollectionId,
    EntryStatus,
    HistoryEntry,
    JobRecord,
    JobState,
    Occurrence,
)
from backstay.domain.lease import Owner
from backstay.domain.task import NewTask

#: So many entries of a job's history are kept unless somebody says otherwise.
HISTORY_MAX: Final = 1_000


class CollectionSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What decides about a change of a collection."""

    # As it is; None: there is none.
    collection: Collection | None
    # Its jobs; as many as a SKU allows.
    jobs: Sequence[JobRecord] = ()
    # Other collections of the subscription, by SKU.
    others: dict[str, int] = {}


class JobSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What decides about a change of a job."""

    collection: Collection
    # With its secrets; None: there is none.
    job: JobRecord | None
    # How many jobs there are in the collection; one that is about to be created is not among them.
    jobs: int


DecideCollection = Callable[[CollectionSeen], Collection]
DecideJob = Callable[[JobSeen], JobRecord]
#: The task that runs a job by hand.
DecideRun = Callable[[JobSeen], NewTask]


class DueJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose next instant has come."""

    job: JobRecord
    collection: Collection
    # Tasks of its occurrences, whatever their generation and whoever asked for them, that have not settled.
    # One that stopped in error has: it waits for a person, and the job need not.
    at_work: int


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """What a tick makes of a job, if it is still as it was seen."""

    seen: JobRecord
    # The job afterwards: its next instant, what was fired, its state.
    job: JobRecord
    # One for each occurrence that starts; they are entered as if submitted, in the same transaction.
    tasks: Sequence[NewTask] = ()
    # Gaps, for the history.
    entries: Sequence[HistoryEntry] = ()
    # The instant stays the next one, and the job is due again only then: an earlier occurrence is at work.
    again_at: datetime | None = None
    # Whom this calls a person for.
    alerts: Sequence[NewAlert] = ()


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an attempt of an occurrence."""

    occurrence: Occurrence
    entry: HistoryEntry
    # The main action has come to its end: it succeeded, or its retries are used up.
    final: bool = False


class Place(NamedTuple):
    """Where a secret is kept; they are in this order."""

    job_key: int
    place: str


class Resealed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of some secrets that were to be sealed anew."""

    sealed: int = 0
    # No key opens them.
    unopened: int = 0
    # Where to go on; None: those were all.
    after: Place | None = None


class Jobs(Protocol):
    """Each method is one transaction: it happens entirely or not at all."""

    # Collections

    async def collection(self, id: CollectionId) -> Collection:
        """Raises UnknownCollection."""

    async def collections(
        self, subscription: str, resource_group: str | None = None, *, skip: int = 0, limit: int
    ) -> list[Collection]:
        """By resource group, then name, without regard to case."""

    async def put_collection(
        self, id: CollectionId, decide: DecideCollection, *, act: Act, now: datetime
    ) -> Collection:
        """Write what ``decide`` makes of what is there. Whatever it raises changes nothing.

        What is there keeps its spelling. Jobs of a collection that is not enabled are not due.
        """

    async def delete_collection(self, id: CollectionId, *, act: Act, now: datetime) -> None:
        """With its jobs and their history. Raises UnknownCollection."""

    # Jobs

    async def job_numbers(self, collections: Sequence[CollectionId]) -> list[int]:
        """How many jobs each of them has; none, if it is not there."""

    async def job(self, collection: CollectionId, name: str) -> JobRecord:
        """Raises UnknownCollection, UnknownJob."""

    async def jobs(
        self, collection: CollectionId, *, state: JobState | None = None, skip: int = 0, limit: int
    ) -> list[JobRecord]:
        """By name. Raises UnknownCollection."""

    async def put_job(
        self, collection: CollectionId, name: str, decide: DecideJob, *, act: Act, now: datetime
    ) -> JobRecord:
        """Write what ``decide`` makes of what is there. Raises UnknownCollection, and whatever it raises.

        What is there keeps its spelling. An enabled job that has no next instant, and whose last occurrence
        has come to its end, is left completed or faulted.
        """

    async def delete_job(self, collection: CollectionId, name: str, *, act: Act, now: datetime) -> None:
        """With its history. Raises UnknownCollection, UnknownJob. What is at work comes to its end."""

    async def run(
        self, collection: CollectionId, name: str, decide: DecideRun, *, act: Act, now: datetime
    ) -> bool:
        """Enter the task that ``decide`` makes of a job, as if submitted; whether it is new.

        No instant is used up, and the task counts as one at work. Raises UnknownCollection, UnknownJob, and
        whatever ``decide`` raises.
        """

    async def secrets(self, job_key: int, *, uid: str) -> Mapping[str, str]:
        """Of a job that is still there, for its action; nobody else is given them. Else nothing.

        To ask for one that cannot be opened raises SecretUnopened.
        """

    async def reseal(
        self, after: Place | None = None, *, limit: int, act: Act | None = None, now: datetime
    ) -> Resealed:
        """Seal with the key that seals now what another one sealed, of the next ``limit`` secrets.

        What cannot be opened stays as it is. Raises SecretKeyMissing.
        """

    # Instants

    async def next_due(self) -> datetime | None:
        """When the next job is due whose collection is enabled; in the past if one is due."""

    async def due(self, *, now: datetime, limit: int) -> list[DueJob]:
        """Those that are due longest first; none of a collection that is not enabled."""

    async def fire(
        self, firings: Sequence[Firing], *, owner: Owner, now: datetime, history_max: int = HISTORY_MAX
    ) -> list[bool]:
        """Advance jobs and enter their tasks; of each, whether it was still as seen, and could be written.

        What is written of a job: its next instant, what was fired, its state. A job that somebody else is
        just writing is left alone: look again. Raises LeaseLost when ``owner`` was declared dead.
        """

    # What became of them

    async def record(
        self, attempts: Sequence[Attempt], *, now: datetime, history_max: int = HISTORY_MAX
    ) -> list[bool]:
        """Enter attempts into the history and count them; of each, whether it is new.

        The same attempt said again changes nothing, and neither does one of a job that is gone. Those of an
        earlier generation are in the history, and count no more. When the last occurrence of a job comes to
        its end, the job is completed or faulted by its outcome. Beyond ``history_max`` entries the oldest go.
        """

    async def history(
        self,
        job_key: int,
        *,
        status: EntryStatus | None = None,
        action: ActionName | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        skip: int = 0,
        limit: int,
    ) -> list[HistoryEntry]:
        """Newest first by their start, then by their number; those that began from ``since`` to ``until``.

        An entry that is no gap comes with the occurrence that it is of.
        """

    async def close_stranded(self, *, now: datetime, limit: int) -> int:
        """End jobs whose last occurrence came to no end of its own, so many at most; how many that were.

        Its task was cancelled, or stopped in error: nothing more will be said of it, and the job is faulted.
        """

    async def prune(self, *, finished_before: datetime, entries_before: datetime, limit: int) -> int:
        """Delete finished jobs and entries that are older, so many at most; how many that were.

        So are those of jobs that were deleted: nobody sees them any more, but there may be a great many.
        """
