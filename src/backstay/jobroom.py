"""Looks after jobs: collections, what is in them, and what became of it; has one run, stopped, or gone.

What it gives back is what the REST API answers: documents, in which there is never a secret. For whoever
shows more than these there are records, in which there is none either.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

import msgspec

from backstay.clock import Clock
from backstay.domain.audit import Act
from backstay.domain.jobs import deciding
from backstay.domain.jobs.collection import patched_collection, rendered_collection, replaced_collection
from backstay.domain.jobs.documents import JobDocument, certificates_in, missing_secrets, replaced
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.names import check_name, check_place
from backstay.domain.jobs.occurrences import by_hand, task_of
from backstay.domain.jobs.planning import upcoming
from backstay.domain.jobs.records import (
    LOST,
    ActionName,
    CollectionId,
    CollectionState,
    EntryStatus,
    HistoryEntry,
    JobRecord,
    JobState,
    Sku,
)
from backstay.domain.jobs.records import Collection as JobCollection
from backstay.domain.jobs.rendering import rendered_entry, rendered_job
from backstay.domain.target import SECRETS_TARGET, collection_target, job_target
from backstay.domain.task import NewTask
from backstay.errors import Conflict, InvalidJob, InvalidRequest, UnknownCollection, UnknownJob
from backstay.settings import Settings
from backstay.store.jobs import CollectionSeen, Jobs, JobSeen, Place, Resealed
from backstay.vault import opens_in_time

#: What one list gives at most. No collection has more jobs.
LISTED_MAX: Final = 1_000
#: So many secrets are sealed anew in one transaction.
RESEALED_MAX: Final = 500
#: What a list of entries gives unless told otherwise.
ENTRIES_USUAL: Final = 500

#: The SKUs that a collection may be given, but for those of earlier releases of the REST API.
SKUS: Final[Sequence[Sku]] = (Sku.STANDARD, Sku.FREE, Sku.P10_PREMIUM, Sku.P20_PREMIUM)


class Filled(msgspec.Struct, frozen=True):
    """A collection, and how many jobs are in it."""

    collection: JobCollection
    jobs: int


class Jobroom:
    """The jobs of one store, for whoever looks after them."""

    def __init__(self, jobs: Jobs, *, settings: Settings, clock: Clock, act: Callable[..., Act]) -> None:
        self._jobs = jobs
        self._settings = settings
        self._clock = clock
        self._act = act

    # Collections

    async def collections(
        self,
        subscription: str,
        resource_group: str | None = None,
        *,
        skip: int = 0,
        limit: int = LISTED_MAX,
    ) -> list[Json]:
        """By resource group, then name."""
        found = await self._jobs.collections(
            subscription, resource_group, skip=skip, limit=_checked_limit(limit)
        )
        return [rendered_collection(one) for one in found]

    async def collection(self, id: CollectionId) -> Json:
        """Raises UnknownCollection."""
        return rendered_collection(await self._jobs.collection(id))

    async def all_filled(
        self, subscription: str, resource_group: str | None = None, *, skip: int = 0, limit: int
    ) -> list[Filled]:
        """As ``collections``, each with how many jobs it has."""
        found = await self._jobs.collections(
            subscription, resource_group, skip=skip, limit=_checked_limit(limit)
        )
        numbers = await self._jobs.job_numbers([one.id for one in found])
        return [Filled(one, number) for one, number in zip(found, numbers, strict=True)]

    async def filled(self, id: CollectionId) -> Filled:
        """Raises UnknownCollection."""
        found = await self._jobs.collection(id)
        [number] = await self._jobs.job_numbers([id])
        return Filled(found, number)

    async def put_collection(self, id: CollectionId, document: Any, *, skus: Collection[Sku] = SKUS) -> Json:
        """Make a collection, or another of the one that is there. Raises InvalidJob, Conflict."""
        check_place(id)
        return await self._change_collection(
            id,
            "put",
            lambda seen: replaced_collection(id, document, kept=seen.collection, known=skus),
        )

    async def patch_collection(
        self, id: CollectionId, document: Any, *, skus: Collection[Sku] = SKUS
    ) -> Json:
        """Change what the document says. Raises UnknownCollection, InvalidJob, Conflict."""
        return await self._change_collection(
            id, "patch", lambda seen: patched_collection(_there(id, seen), document, known=skus)
        )

    async def enable_collection(self, id: CollectionId, *, reason: str | None = None) -> Json:
        """Jobs that are enabled themselves run again. Raises UnknownCollection."""
        return await self._switch(id, "enable", CollectionState.ENABLED, reason)

    async def disable_collection(self, id: CollectionId, *, reason: str | None = None) -> Json:
        """None of its jobs runs, and each keeps its own state. Raises UnknownCollection."""
        return await self._switch(id, "disable", CollectionState.DISABLED, reason)

    async def delete_collection(self, id: CollectionId, *, reason: str | None = None) -> None:
        """With its jobs and their history. Raises UnknownCollection."""
        act = self._act("delete", collection_target(id.name), reason)
        await self._jobs.delete_collection(id, act=act, now=self._clock.now())

    async def _switch(
        self, id: CollectionId, action: str, state: CollectionState, reason: str | None
    ) -> Json:
        document = {"properties": {"state": state.value}}
        return await self._change_collection(
            id, action, lambda seen: patched_collection(_there(id, seen), document, known=SKUS), reason=reason
        )

    async def _change_collection(
        self,
        id: CollectionId,
        action: str,
        change: Callable[[CollectionSeen], JobCollection],
        *,
        reason: str | None = None,
    ) -> Json:
        now = self._clock.now()

        def decide(seen: CollectionSeen) -> JobCollection:
            return deciding.checked_collection(
                change(seen), collection=seen.collection, jobs=seen.jobs, others=seen.others, now=now
            )

        act = self._act(action, collection_target(id.name), reason)
        return rendered_collection(await self._jobs.put_collection(id, decide, act=act, now=now))

    # Jobs

    async def jobs(
        self,
        collection: CollectionId,
        *,
        state: JobState | None = None,
        skip: int = 0,
        limit: int = LISTED_MAX,
    ) -> list[Json]:
        """By name. Raises UnknownCollection."""
        return [
            rendered_job(one) for one in await self.records(collection, state=state, skip=skip, limit=limit)
        ]

    async def job(self, collection: CollectionId, name: str) -> Json:
        """Raises UnknownCollection, UnknownJob."""
        return rendered_job(await self.record(collection, name))

    async def records(
        self, collection: CollectionId, *, state: JobState | None = None, skip: int = 0, limit: int
    ) -> list[JobRecord]:
        """By name. Raises UnknownCollection."""
        return await self._jobs.jobs(collection, state=state, skip=skip, limit=_checked_limit(limit))

    async def record(self, collection: CollectionId, name: str) -> JobRecord:
        """Raises UnknownCollection, UnknownJob."""
        return await self._jobs.job(collection, name)

    async def put_job(
        self,
        collection: CollectionId,
        name: str,
        document: Any,
        *,
        may_replace: bool = True,
        reason: str | None = None,
    ) -> tuple[Json, bool]:
        """Make a job, or another of the one that is there; whether it is new.

        Raises UnknownCollection, InvalidJob, Conflict.
        """
        check_name(name, "job")
        await _try_certificates(document)
        uid, read, now = uuid4().hex, replaced(document), self._clock.now()

        def decide(seen: JobSeen) -> JobRecord:
            if seen.job is not None and not may_replace:
                raise Conflict(f"there is a job {name} already; change that one, or choose another name")
            return self._put(_new_job(seen.collection, name, uid=uid, now=now), read, seen, now=now)

        job = await self._write(collection, name, "put", decide, now=now, reason=reason)
        # One that was there keeps its own.
        return rendered_job(job), job.uid == uid

    async def patch_job(
        self,
        collection: CollectionId,
        name: str,
        document: Any,
        *,
        action: str = "patch",
        as_of: datetime | None = None,
        reason: str | None = None,
    ) -> Json:
        """Change what the document says; with ``as_of``, only if the job is still as it was written then.

        Raises UnknownCollection, UnknownJob, InvalidJob, Conflict.
        """
        await _try_certificates(document)
        now = self._clock.now()

        def decide(seen: JobSeen) -> JobRecord:
            if seen.job is None:
                raise UnknownJob(collection.name, name)
            if as_of is not None and seen.job.updated_at != as_of:
                raise Conflict(
                    f"somebody else changed job {name} meanwhile, and nothing of yours is kept;"
                    " look at it again, and make your change to that"
                )
            return self._patched(seen.job, document, seen.collection, now=now)

        return rendered_job(await self._write(collection, name, action, decide, now=now, reason=reason))

    async def previewed_put(self, collection: CollectionId, name: str, document: Any) -> JobRecord:
        """The job that ``put_job`` would make where there is none; nothing is kept. Raises what it does."""
        check_name(name, "job")
        await _try_certificates(document)
        read, now = replaced(document), self._clock.now()
        there = await self.filled(collection)
        seen = JobSeen(collection=there.collection, job=None, jobs=there.jobs)
        return self._put(_new_job(there.collection, name, uid="", now=now), read, seen, now=now)

    async def previewed_patch(self, collection: CollectionId, name: str, document: Any) -> JobRecord:
        """The job that ``patch_job`` would make; nothing is kept. Raises what it does."""
        await _try_certificates(document)
        job, there = await self.record(collection, name), await self._jobs.collection(collection)
        # Nobody has to open the secrets that it has in order to know that they are there.
        needed = missing_secrets({"properties": job.definition})
        sealed = msgspec.structs.replace(job, secrets=dict.fromkeys(needed, LOST))
        return self._patched(sealed, document, there, now=self._clock.now())

    async def previewed_enable(self, collection: CollectionId, name: str) -> JobRecord:
        """The job as it would be if it were enabled now; nothing is kept."""
        return await self.previewed_patch(collection, name, _STATES[JobState.ENABLED])

    def _put(self, new: JobRecord, document: JobDocument, seen: JobSeen, *, now: datetime) -> JobRecord:
        return deciding.put_job(
            new,
            document,
            collection=seen.collection,
            job=seen.job,
            jobs=seen.jobs,
            delay=self._settings.job_immediately,
            now=now,
        )

    def _patched(
        self, job: JobRecord, document: Any, collection: JobCollection, *, now: datetime
    ) -> JobRecord:
        delay = self._settings.job_immediately
        return deciding.patch_job(document, collection=collection, job=job, delay=delay, now=now)

    def upcoming(self, job: JobRecord, *, limit: int) -> list[datetime]:
        """The next instants of a job, as far as they are known now."""
        return upcoming(job, delay=self._settings.job_immediately, limit=limit)

    async def enable(self, collection: CollectionId, name: str, *, reason: str | None = None) -> Json:
        """Let a job run again, from its next instant on."""
        document = _STATES[JobState.ENABLED]
        return await self.patch_job(collection, name, document, action="enable", reason=reason)

    async def disable(self, collection: CollectionId, name: str, *, reason: str | None = None) -> Json:
        """Start none of its occurrences; what is at work comes to its end."""
        document = _STATES[JobState.DISABLED]
        return await self.patch_job(collection, name, document, action="disable", reason=reason)

    async def delete_job(self, collection: CollectionId, name: str, *, reason: str | None = None) -> None:
        """With its history. Raises UnknownCollection, UnknownJob."""
        act = self._act("delete", job_target(collection.name, name), reason)
        await self._jobs.delete_job(collection, name, act=act, now=self._clock.now())

    async def run(self, collection: CollectionId, name: str, *, reason: str | None = None) -> str:
        """Have a job's action done now; the id of the task that does it.

        Neither its next instant nor its count changes. Raises UnknownCollection, UnknownJob, and JobForbids
        unless job and collection are enabled.
        """
        now = self._clock.now()
        entered: list[str] = []

        def decide(seen: JobSeen) -> NewTask:
            if seen.job is None:
                raise UnknownJob(collection.name, name)
            deciding.check_may_run(seen.collection, seen.job)
            task = task_of(by_hand(seen.job, now=now), seen.job, seen.collection)
            entered.append(task.id)
            return task

        act = self._act("run", job_target(collection.name, name), reason)
        await self._jobs.run(collection, name, decide, act=act, now=now)
        return entered[-1]

    async def reseal(self) -> AsyncIterator[Resealed]:
        """Seal all secrets with the key that seals now, some at a time; what became of those.

        Whoever writes or runs jobs meanwhile is not in the way. Raises SecretKeyMissing.
        """
        act: Act | None = self._act("reseal", SECRETS_TARGET)
        after: Place | None = None
        while True:
            done = await self._jobs.reseal(after, limit=RESEALED_MAX, act=act, now=self._clock.now())
            yield done
            if done.after is None:
                return
            act, after = None, done.after

    async def history(
        self,
        collection: CollectionId,
        name: str,
        *,
        status: EntryStatus | None = None,
        action: ActionName | None = None,
        skip: int = 0,
        limit: int = ENTRIES_USUAL,
    ) -> list[Json]:
        """Newest first. Raises UnknownCollection, UnknownJob."""
        job = await self._jobs.job(collection, name)
        found = await self.entries(job, status=status, action=action, skip=skip, limit=limit)
        return [rendered_entry(job, one) for one in found]

    async def entries(
        self,
        job: JobRecord,
        *,
        status: EntryStatus | None = None,
        action: ActionName | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        skip: int = 0,
        limit: int,
    ) -> list[HistoryEntry]:
        """Newest first; those that began from ``since`` to ``until``."""
        return await self._jobs.history(
            job.key,
            status=status,
            action=action,
            since=since,
            until=until,
            skip=skip,
            limit=_checked_limit(limit),
        )

    async def _write(
        self,
        collection: CollectionId,
        name: str,
        action: str,
        decide: Callable[[JobSeen], JobRecord],
        *,
        now: datetime,
        reason: str | None,
    ) -> JobRecord:
        act = self._act(action, job_target(collection.name, name), reason)
        return await self._jobs.put_job(collection, name, decide, act=act, now=now)


_STATES: Final = {state: {"properties": {"state": state.value}} for state in JobState}


async def _try_certificates(document: Any) -> None:
    """Whoever judges the document opens them in the middle of something. Raises InvalidJob."""
    for one in certificates_in(document):
        if not await asyncio.to_thread(opens_in_time, one.pfx, one.password):
            raise InvalidJob(
                one.member,
                "takes too long to open; export it with the usual number of rounds and size of key",
            )


def _new_job(collection: JobCollection, name: str, *, uid: str, now: datetime) -> JobRecord:
    return JobRecord(
        uid=uid, collection=collection.id, name=name, definition={}, created_at=now, updated_at=now
    )


def _there(id: CollectionId, seen: CollectionSeen) -> JobCollection:
    if seen.collection is None:
        raise UnknownCollection(id.resource_group, id.name)
    return seen.collection


def _checked_limit(limit: int) -> int:
    if not 1 <= limit <= LISTED_MAX:
        raise InvalidRequest(f"limit is {limit}; it must be 1 to {LISTED_MAX:,}")
    return limit
