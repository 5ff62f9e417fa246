"""Collections are kept as they were decided, under the eyes of whoever decides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from backstay.domain.jobs.records import Collection, Fastest, Quota, Sku
from backstay.errors import Conflict, UnknownCollection
from backstay.store.base import Store
from backstay.store.jobs import CollectionSeen
from backstay.store.records import AuditFilter
from backstay.testing.clock import ManualClock
from backstay.testing.promises.calendar import ANN, Calendar, CalendarPromises, an_id, occurrence_of
from backstay.testing.promises.holder import MANY, SECOND, Holder

SECRETS = {"action.request.authentication.password": "hush"}


class CollectingPromises(CalendarPromises):
    async def test_a_collection_is_given_back_as_it_was_decided(
        self, store: Store, calendar: Calendar
    ) -> None:
        quota = Quota(max_job_count=5, max_recurrence=Fastest("minute", 10))
        fields: dict[str, Any] = {"tags": {"a": "b", "ü": ""}, "sku": Sku.P20_PREMIUM, "quota": quota}

        put = await calendar.collect("other", **fields)

        assert put == Collection(id=an_id("other"), location="West US", **fields)
        assert await store.jobs.collection(an_id("other")) == put

    async def test_a_collection_is_found_however_it_is_written_and_keeps_its_first_spelling(
        self, store: Store, calendar: Calendar
    ) -> None:
        await calendar.collect("JobS", group="RG-1")

        again = await calendar.collect("jobs", group="rg-1", location="East US")

        assert again.id == an_id("JobS", group="RG-1")
        assert await store.jobs.collection(an_id("JOBS", group="Rg-1", subscription="SUB")) == again
        assert len(await store.jobs.collections("sub", "rG-1", limit=MANY)) == 1

    async def test_collections_come_by_resource_group_then_name_whatever_the_case(
        self, store: Store, calendar: Calendar, clock: ManualClock, alice: Holder
    ) -> None:
        for group, name in [("rb", "b"), ("Ra", "z"), ("ra", "Y"), ("rb", "A")]:
            await calendar.collect(name, group=group)
        await Calendar(store, clock, alice.owner, "other").collect()

        async def found(*where: str, **page: Any) -> list[str]:
            return [one.id.name for one in await store.jobs.collections(*where, **{"limit": MANY, **page})]

        assert await found("SUB") == ["Y", "z", "A", "b", "jc"]
        assert await found("sub", "RB") == ["A", "b"]
        assert await found("sub", skip=1, limit=2) == ["z", "A"]
        assert await found("nobody") == []

    async def test_jobs_are_counted_by_collection_in_the_order_in_which_that_is_asked(
        self, store: Store, calendar: Calendar
    ) -> None:
        await calendar.collect("Two")
        for name, into in [("a", "two"), ("b", "two"), ("c", "jc")]:
            await calendar.put(name, into=into)
        asked = [an_id("TWO"), an_id("two", group="other"), an_id(), an_id("nowhere"), an_id("two")]

        assert await store.jobs.job_numbers(asked) == [2, 0, 1, 0, 2]
        assert await store.jobs.job_numbers([]) == []

    async def test_who_decides_about_a_collection_sees_it_its_jobs_and_the_others(
        self, calendar: Calendar, store: Store, clock: ManualClock
    ) -> None:
        await calendar.collect("free", sku=Sku.FREE)
        await calendar.collect("second", group="other")
        job = await calendar.put(secrets=SECRETS)
        seen: list[CollectionSeen] = []

        def decide(found: CollectionSeen) -> Collection:
            seen.append(found)
            return found.collection or Collection(id=an_id("new"), location="West US")

        before = await store.jobs.collection(an_id())
        await store.jobs.put_collection(an_id("JC"), decide, act=ANN, now=clock.now())
        await store.jobs.put_collection(an_id("new"), decide, act=ANN, now=clock.now())

        assert seen[0] == CollectionSeen(collection=before, jobs=[job], others={"Free": 1, "Standard": 1})
        assert seen[1] == CollectionSeen(collection=None, jobs=[], others={"Free": 1, "Standard": 2})

    async def test_a_decision_that_raises_changes_nothing(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        job = await calendar.put()
        trail = await store.records.audit(AuditFilter())

        def decide(_seen: object) -> Any:
            raise Conflict("no")

        for one in (an_id(), an_id("new")):
            with pytest.raises(Conflict, match="no"):
                await store.jobs.put_collection(one, decide, act=ANN, now=clock.now())
        for name in ("j", "new"):
            with pytest.raises(Conflict, match="no"):
                await calendar.decide(decide, name)

        assert [one.id.name for one in await store.jobs.collections("sub", limit=MANY)] == ["jc"]
        assert await store.jobs.jobs(an_id(), limit=MANY) == [job]
        assert await store.records.audit(AuditFilter()) == trail

    async def test_a_subscription_has_no_second_free_collection_whoever_decides(
        self, store: Store, calendar: Calendar
    ) -> None:
        await calendar.collect("free", sku=Sku.FREE)
        await calendar.collect("free", sku=Sku.FREE, location="East US")

        with pytest.raises(Conflict):
            await calendar.collect("second", sku=Sku.FREE)
        with pytest.raises(Conflict):
            await calendar.change_collection(sku=Sku.FREE)

        skus = [one.sku for one in await store.jobs.collections("sub", limit=MANY)]
        assert skus == [Sku.FREE, Sku.STANDARD]

    async def test_of_many_who_create_a_free_collection_at_once_one_does(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        def decide(seen: CollectionSeen) -> Collection:
            if seen.others.get("Free"):
                raise Conflict("there is one already")
            return Collection(id=an_id("any"), location="West US", sku=Sku.FREE)

        async def create(number: int) -> Collection:
            return await store.jobs.put_collection(an_id(f"f{number}"), decide, act=ANN, now=clock.now())

        answers = await asyncio.gather(*map(create, range(20)), return_exceptions=True)

        assert sum(isinstance(answer, Collection) for answer in answers) == 1
        assert sum(isinstance(answer, Conflict) for answer in answers) == 19

    async def test_a_collection_is_deleted_with_its_jobs_and_what_comes_then_is_new(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        await calendar.put(secrets=SECRETS)
        job = await calendar.fired()
        await calendar.record(calendar.attempt(occurrence_of(job)))

        await calendar.delete_collection("JC")

        with pytest.raises(UnknownCollection):
            await store.jobs.collection(an_id())
        assert await calendar.history(job) == []
        assert await store.jobs.secrets(job.key, uid=job.uid) == {}
        clock.pass_time(9 * SECOND)
        assert await calendar.due() == []
        await calendar.collect()
        assert await calendar.names() == []
        again = await calendar.put()
        assert again.key > job.key
