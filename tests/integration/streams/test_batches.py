"""Handlers that get the events of a partition in batches and say themselves how far they have got."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from backstay import App, Checkpoint, Event, Permanent, Retry
from backstay.domain.audit import Act
from backstay.domain.stream import Group
from backstay.errors import InvalidRequest, LeaseLost
from tests.support.databases import Database
from tests.support.ingesting import STREAM, at, checkpoints, events, passed, process, quarantined
from tests.support.running import FAST, comes_true, eventually

AT_ONCE = Retry(attempts=2, first="0ms")


def handled_by(handler: Any, *, partitions: int = 1, **options: Any) -> App:
    app = App("archive")
    app.stream(STREAM, partitions=partitions)
    app.batch(STREAM, group="g", **options)(handler)
    return app


async def test_batches_come_in_order_and_the_handler_says_how_far_it_has_got(
    database: Database, tmp_path: Path
):
    """EH-09, EH-10: one batch of a partition at a time; a checkpoint at a chosen event, or at the end."""
    batches: list[list[int]] = []

    async def archive(got: list[Event], checkpoint: Checkpoint) -> None:
        batches.append([event.body for event in got])
        if len(batches) == 1:
            await checkpoint(got[1])
        if len(batches) == 3:
            await checkpoint()

    async with process(handled_by(archive), database.store(), tmp_path, window=4) as reader:
        await reader.append(range(10))
        reached = []
        for _ in range(3):
            await reader.run_once()
            reached.append((await checkpoints(reader.store))[0])

    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert reached == [2, 2, 10]


async def test_a_batch_is_full_or_has_waited_long_enough(database: Database, tmp_path: Path):
    """EH-12. An empty batch is never handed over."""
    batches: dict[int, list[int]] = defaultdict(list)

    async def archive(got: list[Event], checkpoint: Checkpoint) -> None:
        batches[got[0].partition].append(len(got))
        await checkpoint()

    app = handled_by(archive, partitions=2, max_events=10, max_wait="150ms")
    async with app.run(store=database.store(), **at(tmp_path), **FAST):
        await app.stream(STREAM).append_all(events(range(50)))
        await eventually(lambda: passed(app._running._store), lambda done: done == 50)
        await app.stream(STREAM).append_all(events(range(2)))
        await eventually(lambda: passed(app._running._store), lambda done: done == 52)

    assert batches == {0: [10, 10, 5, 1], 1: [10, 10, 5, 1]}


async def test_partitions_are_handled_side_by_side(database: Database, tmp_path: Path):
    together = asyncio.Barrier(3)

    async def archive(got: list[Event], checkpoint: Checkpoint) -> None:
        await together.wait()
        await checkpoint()

    app = handled_by(archive, partitions=3, max_events=2, max_wait="10ms")
    async with app.run(store=database.store(), **at(tmp_path), **FAST):
        await app.stream(STREAM).append_all(events(range(6)))
        await eventually(lambda: passed(app._running._store), lambda done: done == 6)


async def test_a_failed_batch_comes_again_without_what_was_called_finished(
    database: Database, tmp_path: Path
):
    batches: list[list[int]] = []

    async def archive(got: list[Event], checkpoint: Checkpoint) -> None:
        batches.append([event.body for event in got])
        if len(batches) == 1:
            await checkpoint(got[2])
            raise OSError("the disk is full")
        await checkpoint()

    async with process(handled_by(archive, retry=AT_ONCE), database.store(), tmp_path) as reader:
        await reader.append(range(6))
        await reader.run_dry()

        assert batches == [[0, 1, 2, 3, 4, 5], [3, 4, 5]]
        assert await checkpoints(reader.store) == {0: 6}
        assert await quarantined(reader.store) == []


@pytest.mark.parametrize("kind", [ValueError, Permanent])
async def test_a_batch_that_keeps_failing_is_taken_apart_and_the_one_event_is_set_aside(
    database: Database, tmp_path: Path, kind: type[Exception]
):
    batches: list[list[int]] = []

    async def archive(got: list[Event], checkpoint: Checkpoint) -> None:
        batches.append([event.body for event in got])
        if any(event.body == 2 for event in got):
            raise kind("two is no good")
        await checkpoint()

    async with process(handled_by(archive, retry=AT_ONCE), database.store(), tmp_path) as reader:
        await reader.append(range(4))
        await reader.run_dry()

        times = 2 if kind is ValueError else 1
        assert batches == [[0, 1, 2, 3]] * times + [[0], [1]] + [[2]] * times + [[3]]
        [aside] = await quarantined(reader.store)
        assert (aside.event.offset, aside.reason) == (2, f"batch: {kind.__name__}: two is no good")
        assert await checkpoints(reader.store) == {0: 4}


async def test_what_is_set_aside_moves_no_checkpoint_past_what_the_handler_has_not_called_finished(
    database: Database, tmp_path: Path
):
    async def archive(got: list[Event], checkpoint: Checkpoint) -> None:
        if any(event.body == 2 for event in got):
            raise Permanent("two is no good")

    async with process(handled_by(archive), database.store(), tmp_path) as reader:
        await reader.append(range(4))
        await reader.run_dry()

        assert [one.event.offset for one in await quarantined(reader.store)] == [2]
        assert (await checkpoints(reader.store))[0] in (None, 0)


async def test_a_resubmitted_event_is_a_batch_of_its_own(database: Database, tmp_path: Path):
    batches: list[list[int]] = []
    mended = False

    async def archive(got: list[Event], checkpoint: Checkpoint) -> None:
        batches.append([event.body for event in got])
        if not mended and any(event.body == 1 for event in got):
            raise Permanent("one is no good")
        await checkpoint()

    async with process(handled_by(archive), database.store(), tmp_path) as reader:
        await reader.append(range(3))
        await reader.run_dry()
        mended = True
        batches.clear()
        act = Act(who="me", action="resubmit", target=STREAM, reason="mended")
        await reader.store.groups.resubmit(STREAM, None, limit=9, act=act, now=reader.client._clock.now())

        assert await reader.run_once() == 1
        assert batches == [[1]]
        assert await quarantined(reader.store) == []
        assert await checkpoints(reader.store) == {0: 3}


async def test_a_checkpoint_is_of_an_event_of_the_batch(database: Database, tmp_path: Path):
    refused: list[str] = []

    async def archive(got: list[Event], checkpoint: Checkpoint) -> None:
        for event in (Event(body=0, partition=7), Event(body=0, offset=99)):
            with pytest.raises(InvalidRequest) as error:
                await checkpoint(event)
            refused.append(str(error.value))

    async with process(handled_by(archive), database.store(), tmp_path) as reader:
        await reader.append(range(3))
        await reader.run_dry()

    assert refused == [
        "the event at offset 0 of partition 7 is not of this batch, which has offsets 0 to 2 of partition 0",
        "the event at offset 99 of partition 0 is not of this batch, which has offsets 0 to 2 of partition 0",
    ]


async def test_who_has_lost_the_partition_is_told_so_by_its_checkpoint(database: Database, tmp_path: Path):
    """EH-05: the displaced reader hears of it at its next operation."""
    told: list[type[Exception]] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def archive(got: list[Event], checkpoint: Checkpoint) -> None:
        begun.set()
        await go_on.wait()
        try:
            await checkpoint()
        except LeaseLost:
            told.append(LeaseLost)
            raise

    app = handled_by(archive, max_wait="0ms")
    async with (
        process(app, database.store(), tmp_path) as one,
        process(app, database.store(), tmp_path) as two,
    ):
        await one.append(range(3))
        reading = asyncio.create_task(one.ingest.run())
        await begun.wait()
        [flow] = one.pipeline.flows.values()
        now = one.client._clock.now()
        await one.store.groups.release([flow.holding], owner=one.owner, now=now)
        lease = one.client._settings.lease
        log = await one.client.streams.log.identity(STREAM)
        await two.store.groups.hold(Group(STREAM, "g"), [0], log=log, owner=two.owner, lease=lease, now=now)
        go_on.set()
        await comes_true(lambda: told == [LeaseLost])
        await comes_true(lambda: one.pipeline.flows == {})
        assert await checkpoints(two.store) == {0: None}
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
