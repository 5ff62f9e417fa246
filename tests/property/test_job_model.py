"""Whatever people and tickers do, in whatever order, a store keeps of jobs what the model says."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstay.domain.instants import micros
from backstay.domain.jobs.records import ActionName, CollectionState, JobRecord, JobState, Occurrence
from backstay.errors import UnknownCollection, UnknownJob
from backstay.store.base import Store
from backstay.store.jobs import Firing
from backstay.testing import ManualClock
from backstay.testing.promises.calendar import Calendar, occurrence_of
from backstay.testing.promises.holder import CANCEL, MANY, SECOND, Holder
from backstay.testing.promises.job_firing import a_gap
from backstay.testing.records import new_task, replace
from tests.property.job_model import JobModel, Place, Seen
from tests.property.stage import Stage

FULL = os.environ.get("BACKSTAY_TEST_CHAOS") == "full"
EXAMPLES = {"sqlite": 1_000 if FULL else 200, "postgres": 300 if FULL else 30}

HISTORY_MAX = 2

# Few of each, so that what happens meets what happened before.
collections = st.sampled_from(["A", "A", "b"])
places = st.tuples(collections, st.sampled_from(["x", "X", "y"]))
states = st.sampled_from(["enabled"] * 6 + ["disabled", "completed"])
collection_states = st.sampled_from([CollectionState.ENABLED, *CollectionState])
instants = st.sampled_from([None, 0, 1, 1, 2])
ways = st.sampled_from(["start", "start", "start", "skip", "put_off"])
numbers = st.integers(0, 9)
flags = st.booleans()
attempts = st.tuples(numbers, flags, flags, flags, st.sampled_from(ActionName), st.integers(0, 2))
last_attempts = st.tuples(numbers, flags, st.just(True), st.just(False), st.just(ActionName.MAIN), st.just(0))


def said(name: str, details: Any) -> Any:
    return st.tuples(st.just(name), details)


# Mostly what makes a job go on; now and then what comes between. Ends are drawn more often than the middle.
operations = st.one_of(
    *[said("record", last_attempts)] * 2,
    *[said("put", st.tuples(places, states, instants))] * 2,
    said("patch", st.tuples(places, states, instants)),
    said("look", st.none()),
    said("fire", st.tuples(numbers, ways, instants)),
    said("settle", numbers),
    said("pass_time", st.integers(1, 3)),
    said("collect", st.tuples(collections, collection_states)),
    said("prune", st.tuples(st.integers(0, 9), st.integers(0, 9))),
    said("delete", places),
    said("delete_collection", st.just("b")),
    *[said("record", attempts)] * 2,
    *[said("tick", st.tuples(st.integers(0, 2), ways, instants))] * 4,
)
BEGINNING = [
    ("collect", ("A", CollectionState.ENABLED)),
    *[("put", (("A", name), "enabled", later)) for name, later in [("x", 1), ("y", 2)]],
]


class Story:
    """A subscription, and its model."""

    def __init__(self, store: Store, clock: ManualClock, calendar: Calendar) -> None:
        self._store = store
        self._clock = clock
        self._began = clock.now()
        self._calendar = calendar
        self._model = JobModel(history_max=HISTORY_MAX)
        #: What tickers have ever seen, as they saw it; and what was ever fired.
        self._seen: list[tuple[JobRecord, Seen]] = []
        self._fired: list[tuple[Occurrence, Place, str]] = []

    @property
    def _now(self) -> int:
        return int((self._clock.now() - self._began) / SECOND)

    async def tell(self, operations: list[tuple[str, Any]]) -> None:
        try:
            for name, details in [*BEGINNING, *operations]:
                await getattr(self, name)(details)
                await self._compare()
        finally:
            # What is due in one story must not be due in the next.
            for one in await self._store.jobs.collections(self._calendar.subscription, limit=MANY):
                await self._calendar.delete_collection(one.id.name)

    # What people do

    async def collect(self, given: tuple[str, CollectionState]) -> None:
        name, state = given
        self._model.collections.setdefault(name.lower(), "Enabled")
        self._model.set_state(name.lower(), state)
        assert (await self._calendar.collect(name, state=state)).state is state

    async def delete_collection(self, name: str) -> None:
        if name.lower() in self._model.collections:
            self._model.delete_collection(name.lower())
            await self._calendar.delete_collection(name)
        else:
            with pytest.raises(UnknownCollection):
                await self._calendar.delete_collection(name)

    async def put(self, given: tuple[tuple[str, str], str, int | None]) -> None:
        (collection, name), state, later = given
        fields = {"state": JobState(state), "next_at": self._instant(later)}
        if collection.lower() not in self._model.collections:
            with pytest.raises(UnknownCollection):
                await self._calendar.put(name, into=collection, **fields)
            return
        put = await self._calendar.put(name, into=collection, **fields)
        place, next_at = _place(collection, name), self._later(later)
        self._model.put(place, name, put.uid, state=state, next_at=next_at, now=self._now)

    async def patch(self, given: tuple[tuple[str, str], str, int | None]) -> None:
        (collection, name), state, later = given
        place = _place(collection, name)
        if place in self._model.jobs:
            self._model.patch(place, state=state, next_at=self._later(later), now=self._now)
            fields = {"state": JobState(state), "next_at": self._instant(later)}
            await self._calendar.change(name, into=collection, **fields)

    async def delete(self, given: tuple[str, str]) -> None:
        collection, name = given
        if self._model.jobs.pop(_place(collection, name), None) is not None:
            await self._calendar.delete(name, into=collection)
        else:
            with pytest.raises((UnknownCollection, UnknownJob)):
                await self._calendar.delete(name, into=collection)

    # What tickers do

    async def look(self, _given: None) -> None:
        for due in await self._calendar.due():
            self._seen.append((due.job, self._model.seen(_place(due.collection.id.name, due.job.name))))

    async def tick(self, given: tuple[int, str, int | None]) -> None:
        """What comes next is seen, and fired at once."""
        number, how, later = given
        await self.pass_time(max((self._model.next_due or 0) - self._now, 0))
        await self.look(None)
        await self.fire((number, how, later))

    async def fire(self, given: tuple[int, str, int | None]) -> None:
        """One of the last that were seen, which may have been fired or changed since."""
        number, how, later = given
        if not self._seen:
            return
        job, seen = self._seen[-1 - number % min(len(self._seen), 4)]
        next_at = self._later(later) if how != "put_off" else seen.next_at
        firing = self._firing(job, how, later)
        fired = await self._calendar.fire(firing, history_max=HISTORY_MAX)
        assert fired == [
            self._model.fire(
                seen,
                task=firing.tasks[0].id if firing.tasks else None,
                next_at=next_at,
                put_off=self._now + 1 if how == "put_off" else None,
                gap=how == "skip",
                now=self._now,
            )
        ]
        if fired == [True] and how == "start":
            self._fired.append((occurrence_of(firing.job), seen.place, seen.uid))

    def _firing(self, job: JobRecord, how: str, later: int | None) -> Firing:
        now, next_at = self._clock.now(), self._instant(later)
        if how == "put_off":
            return Firing(seen=job, job=job, again_at=now + SECOND)
        if how == "skip":
            gap = a_gap(started_at=now)
            return Firing(seen=job, job=replace(job, next_at=next_at), entries=[gap])
        after = replace(job, next_at=next_at, fired_at=job.next_at, occurrences=job.occurrences + 1)
        return Firing(seen=job, job=after, tasks=[new_task(occurrence_of(after).task_id)])

    async def settle(self, number: int) -> None:
        if self._model.tasks:
            task = [*self._model.tasks][number % len(self._model.tasks)]
            if self._model.tasks[task]:
                self._model.tasks[task] = False
                await self._store.amend(task, CANCEL, now=self._clock.now())

    async def record(self, given: tuple[int, bool, bool, bool, ActionName, int]) -> None:
        """One of the last that were fired, whose job may be gone by now."""
        number, failed, final, by_hand, action, retry = given
        if not self._fired:
            return
        occurrence, place, uid = self._fired[-1 - number % min(len(self._fired), 4)]
        occurrence = replace(occurrence, by_hand=by_hand)
        attempt = self._calendar.attempt(occurrence, failed=failed, final=final, action=action, retry=retry)
        at = int((occurrence.at - self._began) / SECOND)
        said = (occurrence.generation, at, by_hand, str(action), retry)
        assert await self._calendar.record(attempt, history_max=HISTORY_MAX) == [
            self._model.record(place, uid, said, failed=failed, final=final, now=self._now)
        ]

    async def pass_time(self, seconds: int) -> None:
        self._clock.pass_time(seconds * SECOND)

    async def prune(self, given: tuple[int, int]) -> None:
        finished, entries = given
        await self._calendar.prune(after=(finished * SECOND, entries * SECOND))
        self._model.prune(finished_before=self._now - finished, entries_before=self._now - entries)

    # What is there then

    async def _compare(self) -> None:
        found: dict[Place, JobRecord] = {}
        for name in self._model.collections:
            listed = await self._store.jobs.jobs(self._calendar.id(name), limit=MANY)
            found |= {_place(name, job.name): job for job in listed}
        model = self._model
        assert {place: self._facts(job) for place, job in found.items()} == {
            place: (
                *(one.name, one.uid, one.generation, one.state, one.next_at, one.fired_at, one.occurrences),
                *(one.executions, one.failures, one.faults, one.outcome),
            )
            for place, one in model.jobs.items()
        }
        due = await self._calendar.due()
        assert {_place(one.collection.id.name, one.job.name): one.at_work for one in due} == {
            place: model.at_work(place) for place in model.due(self._now)
        }
        assert self._seconds(await self._store.jobs.next_due()) == model.next_due
        for place, job in found.items():
            history = await self._calendar.history(job)
            expected = [(one.started_at, one.said and one.said[4]) for one in model.jobs[place].newest_first]
            assert [self._entry(one) for one in history] == expected

    def _facts(self, job: JobRecord) -> tuple[Any, ...]:
        counters, outcome = job.counters, job.outcome
        return (
            *(job.name, job.uid, job.generation, str(job.state), self._seconds(job.next_at)),
            *(self._seconds(job.fired_at), job.occurrences),
            *(counters.executions, counters.failures, counters.faults),
            outcome and (self._seconds(outcome.at), outcome.failed),
        )

    def _entry(self, entry: Any) -> tuple[Any, ...]:
        return self._seconds(entry.started_at), None if entry.status == "postponed" else entry.retry

    def _later(self, seconds: int | None) -> int | None:
        return None if seconds is None else self._now + seconds

    def _instant(self, seconds: int | None) -> Any:
        return None if seconds is None else self._clock.now() + seconds * SECOND

    def _seconds(self, instant: Any) -> int | None:
        return None if instant is None else (micros(instant) - micros(self._began)) // 1_000_000


def _place(collection: str, name: str) -> Place:
    return collection.lower(), name.lower()


def test_a_store_keeps_of_jobs_what_the_model_says(stage: Stage, request: pytest.FixtureRequest):
    runner, store = stage
    number = 0
    kind = request.node.callspec.params["database"]

    async def tell(operations: list[tuple[str, Any]]) -> None:
        nonlocal number
        number += 1
        clock = ManualClock()
        holder = await Holder.joined(store, clock, f"s{number}")
        await Story(store, clock, Calendar(store, clock, holder.owner, f"s{number}")).tell(operations)
        await store.retire(holder.owner, now=clock.now())

    @settings(max_examples=EXAMPLES[kind], suppress_health_check=list(HealthCheck), derandomize=not FULL)
    @given(st.lists(operations, min_size=30, max_size=60))
    def told(operations: list[tuple[str, Any]]) -> None:
        runner.run(tell(operations))

    told()
