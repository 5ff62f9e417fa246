"""How several processes share the partitions of a group, and several readers a partition."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backstay import App, Event
from backstay.domain.audit import Act
from backstay.domain.stream import Group, Unit, floors, slot_of
from backstay.errors import ReadersDiffer
from backstay.observe import PARTITION_TAKEN_AWAY, READERS_DIFFER, counters
from backstay.testing import ManualClock
from tests.support.databases import Database
from tests.support.ingesting import STREAM, Process, process, quarantined, task_ids
from tests.support.running import comes_true

PARTITIONS = 6
EVENTS = 120


class Seen:
    """A function that a pipeline goes through, and what came to it."""

    def __init__(self) -> None:
        self.bodies: Counter[Any] = Counter()
        self.by_key: dict[str | None, list[Any]] = defaultdict(list)

    async def __call__(self, event: Event) -> None:
        self.bodies[event.body] += 1
        self.by_key[event.key].append(event.body)

    @property
    def in_order(self) -> bool:
        return all(bodies == sorted(bodies) for bodies in self.by_key.values())


def through(function: Any, *, partitions: int = PARTITIONS, readers: int = 1) -> App:
    app = App("shop")
    source = app.stream(STREAM, partitions=partitions).source(group="g", readers=readers)
    source.via(function).checkpoint(every=10_000, after="1h")
    return app


async def held(*readers: Process) -> list[int]:
    """How many units each holds."""
    holders = Counter(one.holder for one in (await readers[0].ownership()).units)
    return [holders[one.owner.id] for one in readers]


async def epochs(reader: Process) -> list[int]:
    return [one.epoch for one in (await reader.ownership()).units]


# Balanced


async def test_who_joins_gets_its_share_and_nothing_is_done_twice(database: Database, tmp_path: Path):
    """Nobody is displaced: who has too much finishes what it has in hand, writes that, and lets go."""
    seen = Seen()
    app = through(seen)
    async with AsyncExitStack() as stack:
        readers: list[Process] = []
        for expected in ([6], [3, 3], [2, 2, 2], [2, 2, 1, 1]):
            readers.append(await stack.enter_async_context(process(app, database.store(), tmp_path)))
            await readers[0].append(range(len(readers) * EVENTS, (len(readers) + 1) * EVENTS), keys=40)
            for _ in range(2):
                for reader in readers:
                    await reader.run_once()
            assert sorted(await held(*readers), reverse=True) == expected

        for reader in readers * 2:
            await reader.run_dry()
        before = await epochs(readers[0])
        for reader in readers * 3:
            await reader.run_once()

        assert await epochs(readers[0]) == before
        assert seen.bodies == Counter(range(EVENTS, 5 * EVENTS))
        assert seen.in_order


async def test_who_stops_hands_over_at_once_to_all_that_stay(database: Database, tmp_path: Path):
    seen = Seen()
    app = through(seen)
    async with (
        process(app, database.store(), tmp_path) as one,
        process(app, database.store(), tmp_path) as two,
        process(app, database.store(), tmp_path) as three,
    ):
        for reader in [one, two, three] * 2:
            await reader.run_once()
        await one.append(range(EVENTS), keys=40)
        await one.run_once()
        await one.ingest.drain()
        assert await held(one, two, three) == [0, 2, 2]

        await two.run_dry()
        await three.run_dry()

        assert await held(one, two, three) == [0, 3, 3]
        assert seen.bodies == Counter(range(EVENTS))


async def test_who_does_not_give_up_in_time_is_displaced_one_unit_at_a_time(
    database: Database, tmp_path: Path
):
    """What it had in hand is dropped there, and repeated by the other."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    seen, taken_away = Seen(), counters[PARTITION_TAKEN_AWAY]

    async def hang(event: Event) -> None:
        await seen(event)
        begun.set()
        await go_on.wait()

    clock = ManualClock()
    settings: Any = {"clock": clock, "drain": "5s", "lease": "100d", "heartbeat": "10s"}
    async with (
        process(through(hang), database.store(), tmp_path, **settings) as slow,
        process(through(seen), database.store(), tmp_path, **settings) as other,
    ):
        await slow.append(range(EVENTS), keys=40)
        reading = asyncio.create_task(slow.ingest.run())
        await begun.wait()
        await comes_true(lambda: seen.bodies.total() == 40)

        await other.run_once()
        await comes_true(lambda: len(slow.pipeline._handing_over) == 3)
        clock.pass_time(timedelta(seconds=4))
        await other.run_once()
        assert await held(slow, other) == [6, 0]
        clock.pass_time(timedelta(seconds=2))
        for number in (1, 2, 3, 3):
            await other.run_once()
            assert await held(slow, other) == [6 - number, number]
        assert counters[PARTITION_TAKEN_AWAY] == taken_away + 3
        await comes_true(lambda: len(slow.pipeline.flows) == 3 and not slow.pipeline._handing_over)

        go_on.set()
        await other.run_dry()
        await comes_true(lambda: set(seen.bodies) == set(range(EVENTS)))
        await slow.ingest.drain()
        await other.run_dry()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert max(seen.bodies.values()) == 2


async def test_processes_that_run_find_their_shares_by_themselves(database: Database, tmp_path: Path):
    seen = Seen()
    app = through(seen)
    async with (
        process(app, database.store(), tmp_path) as one,
        process(app, database.store(), tmp_path) as two,
    ):
        reading = [asyncio.create_task(one.ingest.run())]
        await comes_true(lambda: len(one.pipeline.flows) == PARTITIONS)
        reading.append(asyncio.create_task(two.ingest.run()))
        await comes_true(lambda: len(two.pipeline.flows) == PARTITIONS // 2)
        await one.append(range(EVENTS), keys=40)
        await comes_true(lambda: len(seen.bodies) == EVENTS)
        await one.ingest.drain()
        await comes_true(lambda: len(two.pipeline.flows) == PARTITIONS)
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    assert seen.bodies == Counter(range(EVENTS))


async def test_a_group_that_is_forgotten_while_its_reader_stands_still_begins_anew(
    database: Database, tmp_path: Path
):
    seen = Seen()
    async with process(through(seen), database.store(), tmp_path) as reader:
        await reader.append(range(5), keys=5)
        await reader.run_dry()
        await reader.pipeline.drain()
        act = Act(who="ann", action="forget", target="group:numbers/g")
        await reader.store.groups.forget(Group(STREAM, "g"), act=act, now=reader.client._clock.now())

        reader.pipeline._draining = False
        await reader.run_dry()

        assert seen.bodies == Counter([*range(5)] * 2)


# By number


def numbered(ordinal: int, members: int) -> dict[str, Any]:
    return {
        "partition_assignment": "static",
        "partition_members": members,
        "partition_ordinal": ordinal,
    }


async def test_with_static_assignment_each_reads_the_share_of_its_number(database: Database, tmp_path: Path):
    seen = Seen()
    app = through(seen)
    async with (
        process(app, database.store(), tmp_path, **numbered(0, 3)) as zero,
        process(app, database.store(), tmp_path, **numbered(2, 3)) as two,
    ):
        await zero.append(range(EVENTS), keys=40)
        for reader in (zero, two, zero, two):
            await reader.run_dry()

        assert [sorted(one.pipeline.flows) for one in (zero, two)] == [
            [Unit(0), Unit(3)],
            [Unit(2), Unit(5)],
        ]
        assert await held(zero, two) == [2, 2]  # What is number one's waits for it.


async def test_who_takes_the_place_of_another_has_its_share_at_once_even_if_that_seems_to_live(
    database: Database, tmp_path: Path
):
    app = through(Seen())
    async with (
        process(app, database.store(), tmp_path, **numbered(0, 2)) as old,
        process(app, database.store(), tmp_path, **numbered(0, 2)) as new,
    ):
        await old.run_once()
        await new.run_once()

        assert await held(old, new) == [0, 3]
        await old.run_once()
        assert (await held(old, new), old.pipeline.flows) == ([0, 3], {})


async def test_what_others_claim_is_given_up_and_the_rest_is_shared_evenly(
    database: Database, tmp_path: Path
):
    app = through(Seen())
    async with (
        process(app, database.store(), tmp_path) as one,
        process(app, database.store(), tmp_path) as two,
        process(app, database.store(), tmp_path, **numbered(0, 3)) as fixed,
    ):
        for reader in [one, two, fixed] * 3:
            await reader.run_once()

        assert await held(one, two, fixed) == [2, 2, 2]
        assert sorted(fixed.pipeline.flows) == [Unit(0), Unit(3)]


# Several readers of a partition


@pytest.mark.parametrize("keys", [40, None])
async def test_each_event_is_processed_by_one_of_the_readers_of_its_partition(
    database: Database, tmp_path: Path, keys: int | None
):
    seen = Seen()
    app = through(seen, partitions=2, readers=3)
    async with (
        process(app, database.store(), tmp_path) as one,
        process(app, database.store(), tmp_path) as two,
    ):
        for reader in [one, two] * 2:
            await reader.run_once()
        assert await held(one, two) == [3, 3]
        await one.append(range(EVENTS), keys=keys)
        for reader in [one, two]:
            await reader.run_dry()
            await reader.pipeline.drain()

        assert seen.bodies == Counter(range(EVENTS))
        assert keys is None or seen.in_order
        # Every slot has passed everything, also what was not its own.
        standings = await one.store.groups.standings(STREAM)
        [ends] = await one.client.streams.standings(names=[STREAM], limit=1)
        assert [one.checkpoint for one in standings] == [
            part.end for part in ends.partitions for _ in range(3)
        ]


async def test_a_log_forgets_nothing_that_one_of_the_readers_has_yet_to_pass(
    database: Database, tmp_path: Path
):
    app = through(Seen(), partitions=1, readers=2)
    async with process(app, database.store(), tmp_path) as reader:
        await reader.append(range(EVENTS), keys=40)
        await reader.pipeline._look()
        await reader.pipeline.flows[Unit(0, 1)].run_once()
        await reader.ingest.checkpointer.write([reader.pipeline.flows[Unit(0, 1)].tally])
        assert floors(await reader.store.groups.standings(STREAM)) == {0: 0}

        await reader.run_dry()
        await reader.pipeline.drain()
        assert floors(await reader.store.groups.standings(STREAM)) == {0: EVENTS}


async def test_tasks_are_started_once_by_readers_that_share_a_partition(database: Database, tmp_path: Path):
    app = App("shop")

    @app.workflow
    async def count(number: int) -> int:
        return number

    source = app.stream(STREAM, partitions=1).source(group="g", readers=4)
    source.map(lambda event: event.body).start(count, id=lambda number: f"task-{number:03}")
    async with (
        process(app, database.store(), tmp_path) as one,
        process(app, database.store(), tmp_path) as two,
    ):
        await one.append(range(EVENTS), keys=40)
        for reader in [one, two] * 3:
            await reader.run_dry()

        assert await held(one, two) == [2, 2]
        assert await task_ids(one.store) == [f"task-{number:03}" for number in range(EVENTS)]


async def test_what_is_resubmitted_goes_to_the_reader_that_has_its_key(database: Database, tmp_path: Path):
    seen, broken = Seen(), True

    def check(event: Event) -> Event:
        if broken:
            raise ValueError("not yet")
        return event

    app = App("shop")
    source = app.stream(STREAM, partitions=1).source(group="g", readers=3)
    source.map(check).via(seen)
    async with process(app, database.store(), tmp_path) as reader:
        await reader.append(range(12), keys=12)
        await reader.run_dry()
        aside = await quarantined(reader.store)
        assert len(aside) == 12
        assert len({slot_of(one.event, 3) for one in aside}) == 3
        broken = False
        act = Act(who="ann", action="resubmit", target=f"stream:{STREAM}")
        await reader.store.groups.resubmit(STREAM, None, limit=99, act=act, now=reader.client._clock.now())

        await reader.run_once()

        assert await quarantined(reader.store) == []
        assert seen.bodies == Counter(range(12))


async def test_the_number_of_readers_changes_when_those_with_another_have_stopped(
    database: Database, tmp_path: Path
):
    seen, told = Seen(), counters[READERS_DIFFER]
    async with (
        process(through(seen, partitions=2, readers=3), database.store(), tmp_path) as before,
        process(through(seen, partitions=2, readers=2), database.store(), tmp_path) as after,
    ):
        await before.append(range(EVENTS), keys=40)
        await before.run_dry()
        with pytest.raises(ReadersDiffer, match="readers=3 by reader-"):
            await after.run_once()
        waiting = asyncio.create_task(after.ingest.run())
        await comes_true(lambda: counters[READERS_DIFFER] == told + 1)

        await before.ingest.drain()
        await comes_true(lambda: len(after.pipeline.flows) == 4)

        await after.append(range(EVENTS, 2 * EVENTS), keys=40)
        await comes_true(lambda: len(seen.bodies) == 2 * EVENTS)
        assert counters[READERS_DIFFER] == told + 1
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert seen.bodies == Counter(range(2 * EVENTS))
    assert seen.in_order
