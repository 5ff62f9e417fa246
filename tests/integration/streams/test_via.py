"""Events that go through a function: at least once, in order of each key, no further ahead than allowed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

from backstay import App, Event, Permanent, Retry
from backstay.ingest.streams.budget import Budget
from tests.support.databases import Database
from tests.support.ingesting import STREAM, at, checkpoints, passed, process, quarantined
from tests.support.running import FAST, comes_true, eventually

AT_ONCE = Retry(attempts=3, first="0ms")


def through(
    function: Any, *, partitions: int = 1, every: int = 10, after: str = "50ms", **options: Any
) -> App:
    app = App("shop")
    source = app.stream(STREAM, partitions=partitions).source(group="g")
    source.via(function, **options).checkpoint(every=every, after=after)
    return app


async def test_every_event_is_processed_and_those_of_a_key_in_order(database: Database, tmp_path: Path):
    """EH-02: one at a time of each key, many keys at once."""
    seen: dict[str | None, list[int]] = defaultdict(list)
    at_work: set[str | None] = set()
    most = 0

    async def note(event: Event) -> None:
        nonlocal most
        assert event.key not in at_work
        at_work.add(event.key)
        most = max(most, len(at_work))
        await asyncio.sleep(0.001 * (event.body % 3))
        at_work.discard(event.key)
        seen[event.key].append(event.body)

    async with process(through(note, partitions=3), database.store(), tmp_path) as reader:
        await reader.append(range(200), keys=11)
        assert await reader.run_dry() == 200

        assert seen == {f"key-{key}": list(range(key, 200, 11)) for key in range(11)}
        assert most > 2
        assert await passed(reader.store) == 200


async def test_events_without_a_key_are_processed_side_by_side(database: Database, tmp_path: Path):
    together = asyncio.Barrier(5)

    async def meet(event: Event) -> None:
        await together.wait()

    async with process(through(meet), database.store(), tmp_path) as reader:
        await reader.append(range(5))
        assert await reader.run_dry() == 5


async def test_no_more_are_at_work_than_declared_over_all_partitions(database: Database, tmp_path: Path):
    at_work = most = 0

    async def note(event: Event) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.002)
        at_work -= 1

    app = through(note, partitions=4, concurrency=3)
    async with app.run(store=database.store(), **at(tmp_path)):
        await app.stream(STREAM).append_all([Event(body=number) for number in range(60)])
        await eventually(lambda: passed(app._running._store), lambda done: done == 60)

    assert most == 3


async def test_one_slow_event_holds_up_its_key_alone_and_the_checkpoint_waits_for_it(
    database: Database, tmp_path: Path
):
    slow, done = asyncio.Event(), set()

    async def note(event: Event) -> None:
        if event.body == 3:
            await slow.wait()
        done.add(event.body)

    app = through(note, every=1)
    async with app.run(store=database.store(), **at(tmp_path)):
        store = app._running._store
        await app.stream(STREAM).append_all([Event(body=n, key=f"key-{n % 5}") for n in range(50)])
        await comes_true(lambda: len(done) == 40)
        assert done == {number for number in range(50) if number % 5 != 3}
        await eventually(lambda: checkpoints(store), lambda found: found == {0: 3})

        slow.set()
        await eventually(lambda: checkpoints(store), lambda found: found == {0: 50})


async def test_no_more_than_the_window_is_read_beyond_what_is_finished(database: Database, tmp_path: Path):
    """A stage that stands still stops reading: the rest waits in the log."""
    slow, begun = asyncio.Event(), []

    async def note(event: Event) -> None:
        begun.append(event.body)
        if event.body == 0:
            await slow.wait()

    app = through(note)
    async with process(app, database.store(), tmp_path, window=40) as reader:
        await reader.append(range(200))
        ingesting = asyncio.create_task(reader.ingest.run())
        await comes_true(lambda: len(begun) == 40)
        [flow] = reader.pipeline.flows.values()
        for _ in range(5):
            await asyncio.sleep(0.02)
            assert flow.tally.mark.in_hand == len(begun) == 40

        slow.set()
        await comes_true(lambda: len(begun) == 200)
        ingesting.cancel()
        await asyncio.gather(ingesting, return_exceptions=True)


async def test_large_events_are_read_no_faster_than_they_are_finished(
    tmp_path: Path, sqlite_database: Database
):
    slow, begun = asyncio.Event(), []

    async def note(event: Event) -> None:
        begun.append(event.offset)
        await slow.wait()

    async with process(through(note, partitions=2), sqlite_database.store(), tmp_path) as reader:
        await reader.append(["x" * 100_000 for _ in range(100)])
        budget = Budget(1_000_000)
        for pipeline in reader.ingest.pipelines:
            object.__setattr__(pipeline._services, "budget", budget)
        ingesting = asyncio.create_task(reader.ingest.run())
        await comes_true(lambda: budget.held > 900_000)
        for _ in range(5):
            await asyncio.sleep(0.02)
            # The first event of a read comes whatever its size.
            assert budget.held < 1_000_000 + 2 * 101_000

        slow.set()
        await comes_true(lambda: len(begun) == 100 and budget.held == 0)
        ingesting.cancel()
        await asyncio.gather(ingesting, return_exceptions=True)


async def test_what_fails_is_tried_again_and_then_set_aside(database: Database, tmp_path: Path):
    tries: list[int] = []

    async def fail(event: Event) -> None:
        tries.append(event.body)
        if event.body == 1 or (event.body == 2 and tries.count(2) < 3):
            raise ValueError("not now")

    async with process(through(fail, retry=AT_ONCE), database.store(), tmp_path) as reader:
        await reader.append(range(4), keys=1)
        await reader.run_dry()

        assert tries == [0, 1, 1, 1, 2, 2, 2, 3]
        [aside] = await quarantined(reader.store)
        assert (aside.event.offset, aside.reason) == (1, "via fail, tries: 3: ValueError: not now")
        assert await checkpoints(reader.store) == {0: 4}


async def test_what_can_never_succeed_is_set_aside_at_once(database: Database, tmp_path: Path):
    tries: list[int] = []

    async def fail(event: Event) -> None:
        tries.append(event.body)
        raise Permanent("no such street")

    async with process(through(fail, retry=AT_ONCE), database.store(), tmp_path) as reader:
        await reader.append([1])
        await reader.run_dry()

        [aside] = await quarantined(reader.store)
        assert (tries, aside.reason) == ([1], "via fail: Permanent: no such street")


async def test_an_event_past_its_complete_by_is_set_aside(database: Database, tmp_path: Path):
    async def hang(event: Event) -> None:
        await asyncio.Event().wait()

    async with process(through(hang, complete_by="20ms"), database.store(), tmp_path) as reader:
        await reader.append([1])
        await reader.run_dry()

        [aside] = await quarantined(reader.store)
        assert aside.reason == "via hang: not done within 20ms"


async def test_what_was_not_written_down_comes_again_to_whoever_takes_over(
    database: Database, tmp_path: Path
):
    """EH-08, EH-10: after a crash reading goes on at the checkpoint; what lies beyond it is repeated."""
    first: list[int] = []
    second: list[int] = []

    async def note(event: Event) -> None:
        seen.append(event.body)

    seen = first
    app = through(note, every=10, after="1h")
    async with process(app, database.store(), tmp_path) as dead:
        await dead.append(range(25), keys=1)
        await dead.pipeline._look()
        [flow] = dead.pipeline.flows.values()
        assert await flow.run_once() == 25
        # Finished; and nobody has written that yet.
        assert first == list(range(25))
        assert await checkpoints(dead.store) == {0: None}
        await dead.store.retire(dead.owner, now=dead.client._clock.now())

    seen = second
    async with process(app, database.store(), tmp_path) as heir:
        assert await heir.run_dry() == 25
        assert second == list(range(25))
        assert await checkpoints(heir.store) == {0: 25}


async def test_the_checkpoint_is_written_every_so_many_events_or_after_so_long(
    database: Database, tmp_path: Path
):
    hold = asyncio.Event()

    async def note(event: Event) -> None:
        if event.body == 25:
            await hold.wait()

    app = through(note, every=10, after="300ms")
    async with app.run(store=database.store(), **at(tmp_path), **FAST):
        store = app._running._store
        await app.stream(STREAM).append_all([Event(body=number, key="k") for number in range(30)])
        # 25 are finished at once: the first ten make a checkpoint, the rest follow after a while.
        await eventually(lambda: checkpoints(store), lambda found: (found.get(0) or 0) >= 10)
        await eventually(lambda: checkpoints(store), lambda found: found == {0: 25})
        hold.set()
        await eventually(lambda: checkpoints(store), lambda found: found == {0: 30})
