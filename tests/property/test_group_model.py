"""Whatever readers do, in whatever order and however often, a store keeps of it what the model says."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstay.domain.stream import Group, Holding
from backstay.errors import UnknownTask
from backstay.store.base import Store
from backstay.store.groups import Advance, Advanced
from backstay.testing import ManualClock
from backstay.testing.promises.holder import LEASE, SECOND, Holder
from backstay.testing.promises.readers import Reader, a_start, set_aside
from tests.property.group_model import GroupModel, Step
from tests.property.stage import Stage

FULL = os.environ.get("BACKSTAY_TEST_CHAOS") == "full"
EXAMPLES = {"sqlite": 1_000 if FULL else 120, "postgres": 300 if FULL else 30}

NAMES = ("alice", "bob")
QUARANTINE_MAX = 3
TASKS = range(6)

# Few of each, so that what happens meets what happened before.
names = st.sampled_from(NAMES)
partitions = st.integers(0, 2)
offsets = st.integers(0, 5)
advances = st.fixed_dictionaries(
    {
        "partition": partitions,
        "to": st.none() | st.integers(0, 9),
        "starts": st.lists(st.tuples(st.sampled_from(TASKS), st.sampled_from("112"), offsets), max_size=4),
        "aside": st.lists(offsets, max_size=2),
        "settled": st.lists(offsets, max_size=2),
    }
)
operations = st.one_of(
    st.tuples(st.just("hold"), st.tuples(names, st.sets(partitions))),
    st.tuples(st.just("release"), names),
    st.tuples(st.just("advance"), st.tuples(names, st.lists(advances, min_size=1, max_size=3))),
    st.tuples(st.just("advance_again"), st.none()),
    st.tuples(st.just("beat"), names),
    st.tuples(st.just("pass_time"), st.sampled_from([1, 10, 16])),
)


class Story:
    """A group with two readers, and its model."""

    def __init__(self, store: Store, clock: ManualClock, readers: dict[str, Reader], title: str) -> None:
        self._store = store
        self._clock = clock
        self._readers = readers
        self._title = title
        self._model = GroupModel(lease=LEASE, quarantine_max=QUARANTINE_MAX)
        self._model.beats = dict.fromkeys(readers, clock.now())
        #: What each has ever held, as it last was; some of it is lost by now.
        self._held: dict[str, dict[int, Holding]] = {name: {} for name in readers}
        self._last: tuple[str, list[Advance], list[Step]] | None = None

    @classmethod
    async def begun(cls, store: Store, title: str) -> Story:
        clock = ManualClock()
        group = Group(title, "group")
        readers = {}
        for name in NAMES:
            holder = await Holder.joined(store, clock, f"{title}-{name}")
            readers[name] = Reader(store, clock, holder.owner, group)
        return cls(store, clock, readers, title)

    async def tell(self, operations: list[tuple[str, Any]]) -> None:
        for name, details in operations:
            await getattr(self, name)(details)
        for task in TASKS:
            assert await self._content(task) == self._model.state.tasks.get(self._task(task))
        for reader in self._readers.values():
            await self._store.retire(reader.owner, now=self._clock.now())

    async def hold(self, given: tuple[str, set[int]]) -> None:
        name, wanted = given
        epochs = self._model.hold(name, wanted, self._clock.now())
        held = await self._readers[name].hold(*sorted(wanted))
        assert {one.partition: one.epoch for one in held} == epochs
        assert {one.partition: one.checkpoint for one in held} == {
            number: self._model.state.places[number].checkpoint for number in epochs
        }
        self._held[name] |= {one.partition: one for one in held}

    async def release(self, name: str) -> None:
        held = self._held[name]
        self._model.release(name, {number: one.epoch for number, one in held.items()})
        await self._readers[name].release(*held.values())

    async def advance(self, given: tuple[str, list[dict[str, Any]]]) -> None:
        name, wanted = given
        ids = {
            (one.event.partition, one.event.offset): one.id for one in await self._readers[name].quarantine()
        }
        made, steps = [], []
        for one in wanted:
            number = one["partition"]
            if number in self._held[name]:
                holding = self._held[name][number]
                there = [offset for offset in one["settled"] if (number, offset) in ids]
                made.append(self._advance(holding, one, [ids[number, offset] for offset in there]))
                steps.append(self._step(holding, one, there))
        self._last = name, made, steps
        await self.advance_again(None)

    async def advance_again(self, _given: None) -> None:
        """What was said last is said again, as after an answer that was lost."""
        if self._last is None:
            return
        name, made, steps = self._last
        if any(step.settled for step in steps):
            self._last = (
                None  # By then the ids mean nothing any more, and offsets are all that the model knows.
            )
        answers = await self._readers[name].advance_all(made, quarantine_max=QUARANTINE_MAX)
        assert [
            (answer.started, answer.conflicts) if isinstance(answer, Advanced) else type(answer).__name__
            for answer in answers
        ] == self._model.advance(name, steps)
        await self._compare()

    async def beat(self, name: str) -> None:
        await self._store.beat(self._readers[name].owner, now=self._clock.now())
        self._model.beats[name] = self._clock.now()

    async def pass_time(self, seconds: int) -> None:
        self._clock.pass_time(seconds * SECOND)

    async def _compare(self) -> None:
        reader = self._readers["alice"]
        standings = await reader.standings()
        state = self._model.state
        assert {number: one.checkpoint for number, one in standings.items()} == {
            number: place.checkpoint for number, place in state.places.items()
        }
        found = [(one.event.partition, one.event.offset) for one in await reader.quarantine()]
        assert sorted(found) == sorted(state.quarantine)

    def _advance(self, holding: Holding, one: dict[str, Any], settled: list[int]) -> Advance:
        number = holding.partition
        starts = [
            a_start(self._task(task), offset, input=content.encode(), partition=number)
            for task, content, offset in one["starts"]
        ]
        aside = [set_aside(offset, partition=number) for offset in one["aside"]]
        return Advance(holding=holding, to=one["to"], starts=starts, quarantined=aside, settled=settled)

    def _step(self, holding: Holding, one: dict[str, Any], settled: list[int]) -> Step:
        starts = [(self._task(task), content, offset) for task, content, offset in one["starts"]]
        return Step(holding.partition, holding.epoch, one["to"], starts, one["aside"], settled)

    def _task(self, number: int) -> str:
        return f"{self._title}-{number}"

    async def _content(self, number: int) -> str | None:
        try:
            return (await self._store.task(self._task(number))).input.decode()
        except UnknownTask:
            return None


def test_a_store_keeps_of_groups_what_the_model_says(stage: Stage, request: pytest.FixtureRequest):
    runner, store = stage
    number = 0
    kind = request.node.callspec.params["database"]

    async def tell(operations: list[tuple[str, Any]]) -> None:
        nonlocal number
        number += 1
        await (await Story.begun(store, f"s{number}")).tell(operations)

    @settings(max_examples=EXAMPLES[kind], suppress_health_check=list(HealthCheck), derandomize=not FULL)
    @given(st.lists(operations, min_size=8, max_size=50))
    def told(operations: list[tuple[str, Any]]) -> None:
        runner.run(tell(operations))

    told()
