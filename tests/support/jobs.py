"""Jobs in a store: written as clients write them, without the REST API in between."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from backstay.domain.audit import Act
from backstay.domain.jobs.deciding import patch_job, put_job
from backstay.domain.jobs.documents import replaced
from backstay.domain.jobs.records import (
    Collection,
    CollectionId,
    CollectionState,
    HistoryEntry,
    JobRecord,
    Sku,
)
from backstay.domain.task import TaskRecord
from backstay.store.base import Store, TaskFilter
from backstay.store.jobs import CollectionSeen, JobSeen
from tests.support.job_records import COLLECTION, PLACE

ACT = Act(who="test", action="put", target="job:jc/j")
IMMEDIATELY = timedelta(seconds=20)
#: Of which a thousand jobs may be.
LARGE = replace(COLLECTION, sku=Sku.P20_PREMIUM)

_uids = itertools.count(1)


class Calendar:
    """The jobs of one collection of a store; as many as a collection can have."""

    def __init__(self, store: Store, place: CollectionId = PLACE) -> None:
        self.store = store
        self.place = place

    async def open(self, now: datetime, state: CollectionState = CollectionState.ENABLED) -> None:
        """Create the collection, or give it another state."""

        def decide(_seen: CollectionSeen) -> Collection:
            return replace(LARGE, id=self.place, state=state)

        await self.store.jobs.put_collection(self.place, decide, act=ACT, now=now)

    async def put(self, name: str, properties: Mapping[str, Any], *, now: datetime) -> JobRecord:
        """As a client's PUT."""
        document = replaced({"properties": properties})

        def decide(seen: JobSeen) -> JobRecord:
            new = JobRecord(
                uid=f"uid{next(_uids)}",
                collection=self.place,
                name=name,
                definition={},
                created_at=now,
                updated_at=now,
            )
            return put_job(
                new,
                document,
                collection=seen.collection,
                job=seen.job,
                jobs=seen.jobs,
                delay=IMMEDIATELY,
                now=now,
            )

        return await self.store.jobs.put_job(self.place, name, decide, act=ACT, now=now)

    async def patch(self, name: str, properties: Mapping[str, Any], *, now: datetime) -> JobRecord:
        def decide(seen: JobSeen) -> JobRecord:
            assert seen.job is not None
            body = {"properties": properties}
            return patch_job(body, collection=seen.collection, job=seen.job, delay=IMMEDIATELY, now=now)

        return await self.store.jobs.put_job(self.place, name, decide, act=ACT, now=now)

    async def delete(self, name: str, *, now: datetime) -> None:
        await self.store.jobs.delete_job(self.place, name, act=ACT, now=now)

    async def job(self, name: str = "j") -> JobRecord:
        return await self.store.jobs.job(self.place, name)

    async def history(self, name: str = "j") -> list[HistoryEntry]:
        """Oldest first."""
        return (await self.store.jobs.history((await self.job(name)).key, limit=500))[::-1]

    async def tasks(self, workflow: str = "backstay.job") -> list[TaskRecord]:
        """Oldest first."""
        return (await self.store.tasks(TaskFilter(workflow=workflow, limit=1_000)))[::-1]
