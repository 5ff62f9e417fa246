"""Somebody who keeps jobs and lets them fire, as far as a store can see one: what the tests act through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from backstay.domain.audit import Act
from backstay.domain.jobs.records import (
    Collection,
    CollectionId,
    EntryStatus,
    HistoryEntry,
    JobRecord,
    Occurrence,
)
from backstay.domain.lease import Owner
from backstay.domain.task import NewTask
from backstay.store.base import Store
from backstay.store.jobs import Attempt, CollectionSeen, DecideJob, DueJob, Firing, JobSeen
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import MANY, SECOND, Holder, Promises
from backstay.testing.records import new_task, replace

ANN: Final = Act(who="ann", action="put", target="job:jc/j")
DEFINITION: Final = {"action": {"type": "Http", "request": {"uri": "http://localhost/", "method": "GET"}}}


def an_id(name: str = "jc", *, group: str = "rg", subscription: str = "sub") -> CollectionId:
    return CollectionId(subscription, group, name)


def occurrence_of(job: JobRecord, **fields: Any) -> Occurrence:
    """The one that was fired last."""
    assert job.fired_at is not None
    common = {"job_key": job.key, "uid": job.uid, "generation": job.generation, "at": job.fired_at}
    return Occurrence(**{**common, "number": job.occurrences, **fields})


class Calendar:
    """The jobs of a subscription. A job fires once a second unless a test says otherwise."""

    def __init__(self, store: Store, clock: ManualClock, owner: Owner, subscription: str = "sub") -> None:
        self._jobs = store.jobs
        self._clock = clock
        self._owner = owner
        self.subscription = subscription
        self._uids = 0

    def id(self, name: str = "jc", group: str = "rg") -> CollectionId:
        return an_id(name, group=group, subscription=self.subscription)

    # Collections

    async def collect(self, name: str = "jc", *, group: str = "rg", **fields: Any) -> Collection:
        """Put a collection, whatever was there."""
        where = self.id(name, group)

        def decide(_seen: CollectionSeen) -> Collection:
            return Collection(**{"id": where, "location": "West US", **fields})

        return await self._jobs.put_collection(where, decide, act=ANN, now=self._clock.now())

    async def change_collection(self, name: str = "jc", **fields: Any) -> Collection:
        def decide(seen: CollectionSeen) -> Collection:
            assert seen.collection is not None
            return replace(seen.collection, **fields)

        return await self._jobs.put_collection(self.id(name), decide, act=ANN, now=self._clock.now())

    async def delete_collection(self, name: str = "jc") -> None:
        await self._jobs.delete_collection(self.id(name), act=ANN, now=self._clock.now())

    # Jobs

    async def put(self, name: str = "j", *, into: str = "jc", **fields: Any) -> JobRecord:
        """As a PUT does: what was there begins anew, in another generation."""
        now = self._clock.now()

        def decide(seen: JobSeen) -> JobRecord:
            times = {"created_at": now, "updated_at": now, "next_at": now + SECOND}
            identity = {"uid": self._new_uid(), "generation": 1}
            if seen.job is not None:
                identity = {"uid": seen.job.uid, "generation": seen.job.generation + 1}
            where = {"collection": seen.collection.id, "name": name, "definition": DEFINITION}
            return JobRecord(**{**where, **identity, **times, **fields})

        return await self.decide(decide, name, into=into)

    async def change(self, name: str = "j", *, into: str = "jc", **fields: Any) -> JobRecord:
        """As a PATCH does: nothing else changes."""

        def decide(seen: JobSeen) -> JobRecord:
            assert seen.job is not None
            return replace(seen.job, **{"updated_at": self._clock.now(), **fields})

        return await self.decide(decide, name, into=into)

    async def decide(self, decide: DecideJob, name: str = "j", *, into: str = "jc") -> JobRecord:
        return await self._jobs.put_job(self.id(into), name, decide, act=ANN, now=self._clock.now())

    async def delete(self, name: str = "j", *, into: str = "jc") -> None:
        await self._jobs.delete_job(self.id(into), name, act=ANN, now=self._clock.now())

    async def job(self, name: str = "j", *, into: str = "jc") -> JobRecord:
        return await self._jobs.job(self.id(into), name)

    async def names(self, **wanted: Any) -> list[str]:
        return [one.name for one in await self._jobs.jobs(self.id(), **{"limit": MANY, **wanted})]

    async def run(
        self, name: str = "j", make: Callable[[JobSeen], NewTask] | None = None, *, into: str = "jc"
    ) -> bool:
        def decide(seen: JobSeen) -> NewTask:
            assert seen.job is not None
            return new_task(f"job:{seen.job.uid}:{self._clock.micros()}:run")

        return await self._jobs.run(self.id(into), name, make or decide, act=ANN, now=self._clock.now())

    # Instants

    async def due(self, *, limit: int = MANY) -> list[DueJob]:
        return await self._jobs.due(now=self._clock.now(), limit=limit)

    async def due_names(self, *, limit: int = MANY) -> list[str]:
        return [one.job.name for one in await self.due(limit=limit)]

    async def seen(self, name: str = "j") -> JobRecord:
        """A job that is due, as a ticker sees it."""
        [found] = [one.job for one in await self.due() if one.job.name == name]
        return found

    def firing(self, seen: JobRecord, **fields: Any) -> Firing:
        """Its next instant starts, and one more follows a second later unless ``next_at`` says otherwise."""
        assert seen.next_at is not None
        next_at = fields.pop("next_at", seen.next_at + SECOND)
        after = replace(seen, next_at=next_at, fired_at=seen.next_at, occurrences=seen.occurrences + 1)
        task = new_task(occurrence_of(after).task_id)
        return Firing(**{"seen": seen, "job": after, "tasks": [task], **fields})

    async def fire(self, *firings: Firing, history_max: int = MANY) -> list[bool]:
        return await self._jobs.fire(
            firings, owner=self._owner, now=self._clock.now(), history_max=history_max
        )

    async def fired(self, name: str = "j", **fields: Any) -> JobRecord:
        """A job after its next instant has come, and was fired."""
        job = await self.job(name)
        assert job.next_at is not None
        self._clock.pass_time(max(job.next_at - self._clock.now(), 0 * SECOND))
        assert await self.fire(self.firing(await self.seen(name), **fields)) == [True]
        return await self.job(name)

    # What became of them

    def attempt(self, occurrence: Occurrence, *, failed: bool = False, **fields: Any) -> Attempt:
        final = fields.pop("final", not failed)
        now = self._clock.now()
        entry = {
            "status": EntryStatus.FAILED if failed else EntryStatus.COMPLETED,
            "expected_at": occurrence.at,
            "started_at": now,
            "ended_at": now + SECOND,
            "message": "said",
            "repeat": occurrence.number,
        }
        return Attempt(occurrence=occurrence, entry=HistoryEntry(**{**entry, **fields}), final=final)

    async def record(self, *attempts: Attempt, history_max: int = MANY) -> list[bool]:
        return await self._jobs.record(attempts, now=self._clock.now(), history_max=history_max)

    async def history(self, job: JobRecord, **wanted: Any) -> list[HistoryEntry]:
        return await self._jobs.history(job.key, **{"limit": MANY, **wanted})

    async def messages(self, job: JobRecord, **wanted: Any) -> list[str]:
        return [one.message for one in await self.history(job, **wanted)]

    async def prune(self, *, after: Sequence[Any] = (0 * SECOND, 0 * SECOND), limit: int = MANY) -> int:
        """What is older than so long."""
        finished, entries = after
        now = self._clock.now()
        return await self._jobs.prune(
            finished_before=now - finished, entries_before=now - entries, limit=limit
        )

    def _new_uid(self) -> str:
        self._uids += 1
        return f"{self.subscription}-{self._uids}"


class CalendarPromises(Promises):
    """One who keeps jobs, with a collection that is empty."""

    @pytest.fixture
    async def calendar(self, store: Store, clock: ManualClock, alice: Holder) -> Calendar:
        calendar = Calendar(store, clock, alice.owner)
        await calendar.collect()
        return calendar
