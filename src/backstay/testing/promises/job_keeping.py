"""Collections and jobs are kept as they were decided, under the eyes of whoever decides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from backstay.domain.jobs.records import (
    CatchUp,
    CollectionState,
    Counters,
    JobRecord,
    JobState,
    Outcome,
    Overlap,
)
from backstay.domain.task import NewTask
from backstay.errors import Conflict, UnknownCollection, UnknownJob
from backstay.store.base import Changes, Store
from backstay.store.jobs import JobSeen
from backstay.store.records import AuditFilter
from backstay.testing.clock import ManualClock
from backstay.testing.promises.calendar import (
    ANN,
    DEFINITION,
    Calendar,
    CalendarPromises,
    an_id,
)
from backstay.testing.promises.holder import MANY, SECOND
from backstay.testing.promises.listing import listed
from backstay.testing.records import NOON, new_task, replace

SECRETS = {"action.request.authentication.password": "hush", "action.queueMessage.sasToken": "püst"}


class JobKeepingPromises(CalendarPromises):
    # Jobs

    async def test_a_job_is_given_back_as_it_was_decided(self, store: Store, calendar: Calendar) -> None:
        definition = {
            "action": {"a": [1, -2.5, None, True, {}], "text": "\0 ü \U0001f600"},
            "recurrence": {"interval": 2**53},
        }
        fields: dict[str, Any] = {
            "definition": definition,
            "state": JobState.DISABLED,
            "catch_up": CatchUp.ALL,
            "overlap": Overlap.QUEUE,
            "created_at": NOON,
            "updated_at": NOON + SECOND / 3,
            "next_at": NOON + SECOND,
            "fired_at": NOON,
            "occurrences": 7,
            "last_execution_at": NOON + 2 * SECOND,
            "counters": Counters(executions=3, failures=2, faults=1),
            "outcome": Outcome(NOON, failed=True),
        }

        put = await calendar.put("J-1", uid="u", **fields)

        assert put == JobRecord(key=put.key, uid="u", collection=an_id(), name="J-1", **fields)
        assert await calendar.job("j-1") == put
        assert await store.jobs.jobs(an_id("JC"), limit=MANY) == [put]
        again = await calendar.put("j-1", counters=Counters(), outcome=None)
        assert (again.name, again.key, again.generation) == ("J-1", put.key, 2)
        assert (again.counters, again.outcome, again.fired_at) == (Counters(), None, None)
        assert await calendar.job("j-1") == again

    async def test_jobs_come_by_name_whatever_the_case(self, store: Store, calendar: Calendar) -> None:
        for name in ("b", "A", "c_1", "c-1", "C1"):
            await calendar.put(name)
        await calendar.put("a", state=JobState.DISABLED)

        assert await calendar.names() == ["A", "b", "c-1", "C1", "c_1"]
        assert await calendar.names(skip=1, limit=2) == ["b", "c-1"]
        assert await calendar.names(state=JobState.DISABLED) == ["A"]
        assert await calendar.names(state=JobState.ENABLED, skip=2) == ["C1", "c_1"]
        assert await calendar.names(state=JobState.FAULTED) == []

    async def test_the_same_name_in_two_collections_is_two_jobs(
        self, store: Store, calendar: Calendar
    ) -> None:
        await calendar.collect("other")
        first, second = await calendar.put(), await calendar.put(into="other")

        await calendar.delete(into="other")

        assert first.key != second.key
        assert await calendar.job() == first

    async def test_who_decides_about_a_job_sees_it_with_its_secrets_and_how_many_there_are(
        self, store: Store, calendar: Calendar
    ) -> None:
        job = await calendar.put(secrets=SECRETS)
        await calendar.put("second")
        seen: list[JobSeen] = []

        def decide(found: JobSeen) -> JobRecord:
            seen.append(found)
            return found.job or replace(job, uid="new")

        await calendar.decide(decide, "J")
        await calendar.decide(decide, "third")

        collection = await store.jobs.collection(an_id())
        assert seen == [
            JobSeen(collection=collection, job=replace(job, secrets=SECRETS), jobs=2),
            JobSeen(collection=collection, job=None, jobs=2),
        ]
        assert await calendar.names() == ["j", "second", "third"]

    async def test_many_who_create_jobs_at_once_never_exceed_what_the_decision_allows(
        self, store: Store, calendar: Calendar
    ) -> None:
        template = await calendar.put("first")

        def decide(seen: JobSeen) -> JobRecord:
            if seen.jobs >= 10:
                raise Conflict("full")
            return template

        answers = await asyncio.gather(
            *[calendar.decide(decide, f"j{number}") for number in range(100)], return_exceptions=True
        )

        assert sum(isinstance(answer, JobRecord) for answer in answers) == 9
        assert len(await calendar.names()) == 10

    async def test_a_job_is_deleted_and_one_of_the_same_name_is_another(
        self, store: Store, calendar: Calendar
    ) -> None:
        first = await calendar.put("J", secrets=SECRETS)
        await calendar.delete("j")

        assert await calendar.names() == []
        assert await store.jobs.secrets(first.key, uid=first.uid) == {}
        second = await calendar.put("j")
        assert (second.name, second.generation) == ("j", 1)
        assert second.key > first.key
        assert await store.jobs.secrets(second.key, uid=second.uid) == {}

    # Secrets

    async def test_a_secret_is_given_to_the_action_and_to_nobody_else(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        put = await calendar.put(secrets=SECRETS)
        clock.pass_time(SECOND)

        assert await store.jobs.secrets(put.key, uid=put.uid) == SECRETS
        [due] = await calendar.due()
        for job in (put, await calendar.job(), due.job, *await store.jobs.jobs(an_id(), limit=MANY)):
            assert job.secrets == {}
        assert await store.jobs.secrets(put.key, uid="another") == {}
        assert "hush" not in str(await store.records.audit(AuditFilter()))

    async def test_secrets_are_what_the_last_decision_left_of_them(
        self, store: Store, calendar: Calendar
    ) -> None:
        job = await calendar.put(secrets=SECRETS)

        await calendar.change(state=JobState.DISABLED)
        assert await store.jobs.secrets(job.key, uid=job.uid) == SECRETS
        await calendar.change(secrets={"elsewhere": "new"})
        assert await store.jobs.secrets(job.key, uid=job.uid) == {"elsewhere": "new"}
        await calendar.put()
        assert await store.jobs.secrets(job.key, uid=job.uid) == {}

    # By hand

    async def test_a_job_that_is_run_by_hand_enters_the_task_of_the_decision_and_uses_up_nothing(
        self, store: Store, calendar: Calendar
    ) -> None:
        before = await calendar.put(secrets=SECRETS)

        def decide(seen: JobSeen) -> NewTask:
            assert seen.job == replace(before, secrets=SECRETS)
            return new_task("by-hand")

        assert await calendar.run("J", decide)
        assert not await calendar.run("j", decide), "it is the same task"

        assert await listed(store) == ["by-hand"]
        assert await calendar.job() == before

    async def test_a_job_that_may_not_be_run_by_hand_enters_nothing(
        self, store: Store, calendar: Calendar
    ) -> None:
        await calendar.put(state=JobState.DISABLED)

        def decide(_seen: JobSeen) -> NewTask:
            raise Conflict("it is disabled")

        with pytest.raises(Conflict, match="it is disabled"):
            await calendar.run("j", decide)

        assert await listed(store) == []

    # What is not there

    async def test_what_is_not_there_is_named(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        there, absent = an_id(), an_id("absent")

        def decide(_seen: object) -> Any:
            raise AssertionError("there is nothing to decide")

        for jobs in (
            store.jobs.collection(absent),
            store.jobs.delete_collection(absent, act=ANN, now=clock.now()),
            store.jobs.job(absent, "j"),
            store.jobs.jobs(absent, limit=MANY),
            store.jobs.put_job(absent, "j", decide, act=ANN, now=clock.now()),
            store.jobs.delete_job(absent, "j", act=ANN, now=clock.now()),
            store.jobs.run(absent, "j", decide, act=ANN, now=clock.now()),
            store.jobs.collection(an_id(group="elsewhere")),
        ):
            with pytest.raises(UnknownCollection):
                await jobs
        for job in (
            store.jobs.job(there, "j"),
            store.jobs.delete_job(there, "j", act=ANN, now=clock.now()),
            store.jobs.run(there, "j", decide, act=ANN, now=clock.now()),
        ):
            with pytest.raises(UnknownJob, match=r"'j'.*'jc'"):
                await job

    # Who hears of it

    async def test_whoever_listens_hears_of_what_is_put_and_deleted(
        self, store: Store, calendar: Calendar
    ) -> None:
        heard: list[Changes] = []
        stop = store.listen(heard.append)

        async def tells(change: Any) -> bool:
            heard.clear()
            await change
            return any(one.jobs for one in heard)

        assert await tells(calendar.put())
        assert await tells(calendar.change_collection(state=CollectionState.DISABLED))
        assert await tells(calendar.delete())
        assert await tells(calendar.delete_collection())
        stop()

    async def test_every_change_stands_in_the_audit_trail(
        self, store: Store, calendar: Calendar, clock: ManualClock
    ) -> None:
        job = await calendar.put(definition={**DEFINITION, "note": "do-not-tell"})
        await calendar.change(state=JobState.DISABLED)
        await calendar.run()
        await calendar.delete()
        await calendar.delete_collection()

        trail = await store.records.audit(AuditFilter())
        enabled = {"state": "enabled", "uid": job.uid, "generation": 1}
        disabled = {**enabled, "state": "disabled"}
        collection = {"state": "Enabled", "sku": "Standard", "location": "West US"}
        assert [(one.before, one.after) for one in trail] == [
            (collection, None),
            (disabled, None),
            (disabled, disabled),
            (enabled, disabled),
            (None, enabled),
            (None, collection),
        ]
        assert all((one.who, one.at) == ("ann", clock.now()) for one in trail)
