"""Who reads a partition: one process at a time, and what it does when it loses it, or ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backstay import App, Checkpoint, Event
from backstay.clock import SystemClock
from backstay.domain.alert import AlertKind
from backstay.domain.stream import Slice
from backstay.errors import StoreUnavailable
from backstay.messaging.embedded import EmbeddedLog
from backstay.observe import PARTITION_LOST, counters
from backstay.runtime import Running
from backstay.settings import Settings
from backstay.store.groups import Advance, Advanced, Groups
from tests.support.databases import AnyStore, Database
from tests.support.ingesting import STREAM, at, checkpoints, events, passed, process
from tests.support.running import FAST, comes_true, eventually

DAY = timedelta(days=1)


def through(function: Any, *, partitions: int = 2) -> App:
    app = App("shop")
    source = app.stream(STREAM, partitions=partitions).source(group="g")
    source.via(function).checkpoint(every=1000, after="1h")
    return app


async def nothing(event: Event) -> None:
    """Nothing at all."""


async def holders(store: Any) -> Counter[str | None]:
    return Counter(one.holder for one in await store.groups.standings(STREAM))


async def test_a_second_process_takes_what_the_first_leaves(database: Database, tmp_path: Path):
    """EH-05: one reader of a partition at a time."""
    app = through(nothing)
    async with (
        process(app, database.store(), tmp_path) as one,
        process(app, database.store(), tmp_path) as two,
    ):
        await one.append(range(10), keys=5)
        assert (await one.run_dry(), await two.run_dry()) == (10, 0)
        assert await holders(one.store) == {one.owner.id: 2}

        await one.pipeline.drain()
        await one.append(range(10), keys=5)
        assert (await one.run_dry(), await two.run_dry()) == (0, 10)
        assert await holders(one.store) == {two.owner.id: 2}


async def test_a_displaced_holder_drops_everything_it_has_in_hand(database: Database, tmp_path: Path):
    """EH-05, EH-15: what it still had is cancelled at once, and nothing of it is written."""
    begun, cancelled = asyncio.Event(), asyncio.Event()
    lost = counters[PARTITION_LOST]

    async def hang(event: Event) -> None:
        if event.body == "slow":
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    app = through(hang, partitions=1)
    async with (
        process(app, database.store(), tmp_path) as one,
        process(app, database.store(), tmp_path) as two,
    ):
        await one.append(["quick", "slow"])
        reading = asyncio.create_task(one.ingest.run())
        await begun.wait()
        [flow] = one.pipeline.flows.values()
        await comes_true(lambda: flow.tally.mark.low == 1)

        # Another has taken it: this one was thought dead.
        [taken] = await two.take_away(0)
        await one.ingest.checkpointer.write([flow.tally])

        await cancelled.wait()
        await comes_true(lambda: one.pipeline.flows == {} and one.pipeline.in_flight == 0)
        assert await checkpoints(two.store) == {0: None}
        assert counters[PARTITION_LOST] == lost + 1
        assert taken.epoch == flow.holding.epoch + 1
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_a_partition_that_is_taken_away_and_back_is_read_anew(database: Database, tmp_path: Path):
    app = through(nothing, partitions=1)
    async with process(app, database.store(), tmp_path) as one:
        await one.append(range(3))
        await one.run_dry()
        [before] = one.pipeline.flows.values()
        await one.store.groups.release([before.holding], owner=one.owner, now=one.client._clock.now())
        await one.append(range(3))
        assert await one.run_dry() == 3

        [after] = one.pipeline.flows.values()
        assert after is not before
        assert await checkpoints(one.store) == {0: 6}


async def test_a_process_that_drains_ends_what_it_began_writes_that_and_lets_go(
    database: Database, tmp_path: Path
):
    go_on, begun, ended = asyncio.Event(), Counter[int](), Counter[int]()

    async def note(event: Event) -> None:
        begun[event.body] += 1
        await go_on.wait()
        ended[event.body] += 1

    app = App("shop")
    source = app.stream(STREAM, partitions=2).source(group="g")
    source.via(note, concurrency=10).checkpoint(every=1000, after="1h")
    async with process(app, database.store(), tmp_path) as one:
        await one.append(range(50))
        reading = asyncio.create_task(one.ingest.run())
        await comes_true(lambda: begun.total() == 10)
        draining = asyncio.create_task(one.ingest.drain())
        await comes_true(lambda: all(flow._draining for flow in one.pipeline.flows.values()))
        assert not draining.done()
        go_on.set()
        await draining

        # Nothing was begun any more but what lay before something that was.
        assert begun == ended
        assert 10 <= begun.total() < 50
        assert await passed(one.store) == begun.total()
        assert await holders(one.store) == {None: 2}
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_what_is_read_while_a_process_drains_is_left_to_the_next(database: Database, tmp_path: Path):
    seen: list[int] = []

    async def note(event: Event) -> None:
        seen.append(event.body)

    app = through(note, partitions=1)
    log = GatedLog(at(tmp_path)["streams"])
    async with process(app, database.store(), tmp_path, log=log) as reader:
        await reader.append(range(5))
        reading = asyncio.create_task(reader.ingest.run())
        await log.asked.wait()
        await reader.ingest.drain()
        log.gate.set()
        await log.answered.wait()
        await comes_true(lambda: all(task.done() for task in reader.pipeline._tasks.values()))

        assert seen == []
        assert await checkpoints(reader.store) == {0: None}
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


class GatedLog(EmbeddedLog):
    """Gives nothing to read before its gate is open."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.asked, self.gate, self.answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def read(self, stream: str, partition: int, **how: Any) -> Slice:
        self.asked.set()
        await self.gate.wait()
        found = await super().read(stream, partition, **how)
        self.answered.set()
        return found


async def test_a_run_that_ends_writes_how_far_it_has_got(database: Database, tmp_path: Path):
    seen: list[int] = []

    async def note(event: Event) -> None:
        seen.append(event.body)

    app = through(note)
    async with app.run(store=database.store(), **at(tmp_path), **FAST):
        await app.stream(STREAM).append_all(events(range(40), keys=9))
        await comes_true(lambda: len(seen) == 40)

    async with app.client(store=database.store(), **at(tmp_path)) as client:
        assert await passed(client._store) == 40


async def test_a_checkpoint_beyond_the_end_stops_that_partition_alone(database: Database, tmp_path: Path):
    """IR-5: the log is another one than before."""
    alerts = counters[AlertKind.OFFSET_AHEAD]
    seen: Counter[int] = Counter()

    async def note(event: Event) -> None:
        seen[event.partition] += 1

    app = through(note)
    async with process(app, database.store(), tmp_path) as reader:
        [_, ahead] = (await reader.pipeline._holder.run_once()).held
        await reader.store.groups.advance(
            [Advance(holding=ahead, to=7)],
            owner=reader.owner,
            quarantine_max=1,
            now=reader.client._clock.now(),
        )
        reading = asyncio.create_task(reader.ingest.run())
        await comes_true(lambda: counters[AlertKind.OFFSET_AHEAD] == alerts + 1)
        await reader.append(range(20))
        await comes_true(lambda: seen[0] == 10)

        # Even though there is something at that offset by now: it is not what would have come next.
        assert seen == {0: 10}
        assert counters[AlertKind.OFFSET_AHEAD] == alerts + 1
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_a_log_that_is_not_the_one_that_was_read_is_not_read(database: Database, tmp_path: Path):
    """IR-5: also if it has grown beyond the checkpoint by now. A person decides."""
    alerts = counters[AlertKind.OTHER_LOG]
    seen: list[int] = []

    async def note(event: Event) -> None:
        seen.append(event.body)

    app = through(note)
    async with app.run(store=database.store(), **at(tmp_path), **FAST):
        await app.stream(STREAM).append_all(events(range(4)))
        await comes_true(lambda: len(seen) == 4)

    (tmp_path / "elsewhere").mkdir()
    async with app.run(store=database.store(), **at(tmp_path / "elsewhere"), **FAST):
        await app.stream(STREAM).append_all(events(range(100, 120)))
        await comes_true(lambda: counters[AlertKind.OTHER_LOG] == alerts + 1)
        await app.streamroom.forget(STREAM, "g")
        await comes_true(lambda: len(seen) == 24)

    assert sorted(seen) == [*range(4), *range(100, 120)]


async def test_the_store_may_be_away_for_a_while(database: Database, tmp_path: Path):
    """Nothing is lost, nothing is skipped, and nobody has to restart anything."""
    seen: Counter[int] = Counter()

    async def note(event: Event) -> None:
        seen[event.body] += 1

    app = App("shop")
    app.stream(STREAM, partitions=2).source(group="g").via(note).checkpoint(every=1, after="10ms")
    store = database.store_as(AwayStore)
    settings = Settings.load({**at(tmp_path), **FAST}, environment={})
    async with Running(app.registry, settings, store=store) as running:
        assert running.client is not None
        stream = running.client.stream(STREAM)
        await stream.append_all(events(range(10)))
        await eventually(lambda: passed(store), lambda done: done == 10)
        store.away = True
        await stream.append_all(events(range(10, 20)))
        await comes_true(lambda: len(seen) == 20)
        assert await passed(store) == 10

        store.away = False
        await eventually(lambda: passed(store), lambda done: done == 20)
    assert seen == Counter(range(20))


class AwayStore(AnyStore):
    """Writes nothing for readers of streams while it is ``away``."""

    away = False

    @property
    def groups(self) -> Any:
        return _Away(super().groups, self)


class _Away:
    def __init__(self, groups: Groups, store: AwayStore) -> None:
        self._groups = groups
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._groups, name)

    async def advance(self, advances: Any, **how: Any) -> list[Advanced | Any]:
        if self._store.away:
            raise StoreUnavailable("the store is away")
        return await self._groups.advance(advances, **how)


async def test_a_reader_that_waits_or_works_is_not_taken_for_deaf(database: Database, tmp_path: Path):
    """EH-09: a handler that never returns blocks its partition, and nobody restarts the process for that."""
    begun = Counter[str]()

    async def hang(event: Event) -> None:
        begun["via"] += 1
        await asyncio.Event().wait()

    async def hang_with_all(got: list[Event], checkpoint: Checkpoint) -> None:
        begun["batch"] += 1
        await asyncio.Event().wait()

    app = through(hang)
    app.batch(STREAM, group="b", max_wait="0ms")(hang_with_all)
    clock = LeapingClock()
    async with process(app, database.store(), tmp_path, clock=clock, window=1) as reader:
        await reader.append(range(20))
        reading = asyncio.create_task(reader.ingest.run())
        await comes_true(lambda: begun == {"via": 2, "batch": 2})
        clock.skip(60)
        assert reader.ingest.silent_seconds() > 59
        await comes_true(lambda: reader.ingest.silent_seconds() < 5)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


class LeapingClock(SystemClock):
    """Seconds that never jump, but for once."""

    _skipped = 0.0

    def skip(self, seconds: float) -> None:
        self._skipped += seconds

    def monotonic(self) -> float:
        return SystemClock.monotonic() + self._skipped


@pytest.mark.parametrize("partitions", [1, 5])
async def test_an_idle_pipeline_reads_nothing_and_writes_nothing(
    database: Database, tmp_path: Path, partitions: int
):
    app = through(nothing, partitions=partitions)
    async with app.run(store=database.store(), **at(tmp_path), **FAST):
        await app.stream(STREAM).append_all(events(range(10)))
        store = app._running._store

        async def standings() -> Any:
            return await store.groups.standings(STREAM)

        await eventually(standings, lambda found: found and all(one.holder for one in found))
        before = [one.updated_at for one in await standings()]
        await asyncio.sleep(0.3)
        assert [one.updated_at for one in await standings()] == before
