"""Looks after jobs: collections, what is in them, and what became of it; has one run, stopped, or gone.

What it gives back is what the REST API answers: documents, in which there is never a secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from backstay.clock import Clock
from backstay.domain.audit import Act
from backstay.domain.jobs import deciding
from backstay.domain.jobs.collection import patched_collection, rendered_collection, replaced_collection
from backstay.domain.jobs.documents import certificates_in, replaced
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.names import check_name, check_place
from backstay.domain.jobs.occurrences import by_hand, task_of
from backstay.domain.jobs.records import (
    ActionName,
    CollectionId,
    CollectionState,
    EntryStatus,
    JobRecord,
    JobState,
    Sku,
)
from backstay.domain.jobs.records import Collection as JobCollection
from backstay.domain.jobs.rendering import rendered_entry, rendered_job
from backstay.domain.target import SECRETS_TARGET, collection_target, job_target
from backstay.domain.task import NewTask
from backstay.errors import InvalidJob, InvalidRequest, UnknownCollection, UnknownJob
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

    async def enable_collection(self, id: CollectionId) -> Json:
        """Jobs that are enabled themselves run again. Raises UnknownCollection."""
        return await self._switch(id, "enable", CollectionState.ENABLED)

    async def disable_collection(self, id: CollectionId) -> Json:
        """None of its jobs runs, and each keeps its own state. Raises UnknownCollection."""
        return await self._switch(id, "disable", CollectionState.DISABLED)

    async def delete_collection(self, id: CollectionId) -> None:
        """With its jobs and their history. Raises UnknownCollection."""
        act = self._act("delete", collection_target(id.name))
        await self._jobs.delete_collection(id, act=act, now=self._clock.now())

    async def _switch(self, id: CollectionId, action: str, state: CollectionState) -> Json:
        document = {"properties": {"state": state.value}}
        return await self._change_collection(
            id, action, lambda seen: patched_collection(_there(id, seen), document, known=SKUS)
        )

    async def _change_collection(
        self, id: CollectionId, action: str, change: Callable[[CollectionSeen], JobCollection]
    ) -> Json:
        now = self._clock.now()

        def decide(seen: CollectionSeen) -> JobCollection:
            return deciding.checked_collection(
                change(seen), collection=seen.collection, jobs=seen.jobs, others=seen.others, now=now
            )

        act = self._act(action, collection_target(id.name))
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
        found = await self._jobs.jobs(collection, state=state, skip=skip, limit=_checked_limit(limit))
        return [rendered_job(one) for one in found]

    async def job(self, collection: CollectionId, name: str) -> Json:
        """Raises UnknownCollection, UnknownJob."""
        return rendered_job(await self._jobs.job(collection, name))

    async def put_job(self, collection: CollectionId, name: str, document: Any) -> tuple[Json, bool]:
        """Make a job, or another of the one that is there; whether it is new.

        Raises UnknownCollection, InvalidJob, Conflict.
        """
        check_name(name, "job")
        await _try_certificates(document)
        read, now = replaced(document), self._clock.now()
        uid = uuid4().hex

        def decide(seen: JobSeen) -> JobRecord:
            return deciding.put_job(
                JobRecord(
                    uid=uid,
                    collection=seen.collection.id,
                    name=name,
                    definition={},
                    created_at=now,
                    updated_at=now,
                ),
                read,
                collection=seen.collection,
                job=seen.job,
                jobs=seen.jobs,
                delay=self._settings.job_immediately,
                now=now,
            )

        job = await self._write(collection, name, "put", decide, now=now)
        # One that was there keeps its own.
        return rendered_job(job), job.uid == uid

    async def patch_job(
        self, collection: CollectionId, name: str, document: Any, *, action: str = "patch"
    ) -> Json:
        """Change what the document says. Raises UnknownCollection, UnknownJob, InvalidJob, Conflict."""
        await _try_certificates(document)
        now = self._clock.now()

        def decide(seen: JobSeen) -> JobRecord:
            if seen.job is None:
                raise UnknownJob(collection.name, name)
            return deciding.patch_job(
                document,
                collection=seen.collection,
                job=seen.job,
                delay=self._settings.job_immediately,
                now=now,
            )

        return rendered_job(await self._write(collection, name, action, decide, now=now))

    async def enable(self, collection: CollectionId, name: str) -> Json:
        """Let a job run again, from its next instant on."""
        return await self.patch_job(collection, name, _STATES[JobState.ENABLED], action="enable")

    async def disable(self, collection: CollectionId, name: str) -> Json:
        """Start none of its occurrences; what is at work comes to its end."""
        return await self.patch_job(collection, name, _STATES[JobState.DISABLED], action="disable")

    async def delete_job(self, collection: CollectionId, name: str) -> None:
        """With its history. Raises UnknownCollection, UnknownJob."""
        act = self._act("delete", job_target(collection.name, name))
        await self._jobs.delete_job(collection, name, act=act, now=self._clock.now())

    async def run(self, collection: CollectionId, name: str) -> str:
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

        act = self._act("run", job_target(collection.name, name))
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
        found = await self._jobs.history(
            job.key, status=status, action=action, skip=skip, limit=_checked_limit(limit)
        )
        return [rendered_entry(job, one) for one in found]

    async def _write(
        self,
        collection: CollectionId,
        name: str,
        action: str,
        decide: Callable[[JobSeen], JobRecord],
        *,
        now: datetime,
    ) -> JobRecord:
        act = self._act(action, job_target(collection.name, name))
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


def _there(id: CollectionId, seen: CollectionSeen) -> JobCollection:
    if seen.collection is None:
        raise UnknownCollection(id.resource_group, id.name)
    return seen.collection


def _checked_limit(limit: int) -> int:
    if not 1 <= limit <= LISTED_MAX:
        raise InvalidRequest(f"limit is {limit}; it must be 1 to {LISTED_MAX:,}")
    return limit
