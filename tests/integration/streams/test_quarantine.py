"""What cannot be processed is set aside with its reason, and comes again when a person wants it to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from backstay import App, Event
from backstay.domain.alert import AlertKind
from backstay.domain.audit import Act
from backstay.observe import counters
from tests.support.databases import Database
from tests.support.ingesting import STREAM, Process, checkpoints, passed, process, quarantined, task_ids
from tests.support.running import comes_true, eventually


def parse(event: Event) -> int:
    if not isinstance(event.body, int):
        raise TypeError(f"{event.body!r} is no number")
    return event.body


def starting(stage: Any = parse) -> App:
    app = App("shop")

    @app.workflow
    async def count(number: int) -> int:
        return number

    app.stream(STREAM, partitions=3).source(group="g").map(stage).start(count, id=lambda n: f"task-{n:03}")
    return app


async def asynchronous(event: Event) -> int:
    return parse(event)


async def resubmit(reader: Process, *ids: int) -> None:
    act = Act(who="me", action="resubmit", target=f"stream:{STREAM}", reason="mended")
    await reader.store.groups.resubmit(
        STREAM, ids or None, limit=1000, act=act, now=reader.client._clock.now()
    )


@pytest.mark.parametrize("stage", [parse, asynchronous])
async def test_exactly_the_bad_events_are_set_aside_and_the_partitions_move_on(
    database: Database, tmp_path: Path, stage: Any
):
    """DX-05."""
    bad = {number for number in range(300) if number % 37 == 5}
    async with process(starting(stage), database.store(), tmp_path) as reader:
        await reader.append([f"bad-{n}" if n in bad else n for n in range(300)], keys=10)
        assert await reader.run_dry() == 300

        aside = await quarantined(reader.store)
        assert sorted(one.event.body for one in aside) == sorted(f'"bad-{n}"'.encode() for n in bad)
        assert {one.reason for one in aside} == {
            f"map {stage.__name__}: TypeError: 'bad-{number}' is no number" for number in bad
        }
        assert await task_ids(reader.store) == [f"task-{n:03}" for n in range(300) if n not in bad]
        assert await passed(reader.store) == 300


@pytest.mark.parametrize("stage", [parse, asynchronous])
async def test_what_is_no_input_of_the_workflow_or_no_id_is_set_aside(
    database: Database, tmp_path: Path, stage: Any
):
    app = App("shop")

    @app.workflow
    async def count(number: int) -> int:
        return number

    def named(body: Any) -> str:
        return "not an id" if body == 1 else f"task-{body}"

    app.stream(STREAM, partitions=1).source(group="g").map(lambda e: e.body).start(count, id=named)
    async with process(app, database.store(), tmp_path) as reader:
        await reader.append([0, 1, "two"])
        await reader.run_dry()

        name, kind = [one.reason for one in await quarantined(reader.store)]
        assert name.startswith("start: InvalidId: id is 'not an id'")
        assert kind.startswith("start: InvalidInput: input of workflow count does not fit its type")
        assert await task_ids(reader.store) == ["task-0"]


async def test_resubmitted_events_are_processed_once_the_code_was_mended(database: Database, tmp_path: Path):
    async with process(starting(), database.store(), tmp_path) as reader:
        await reader.append([1, "2", 3, "4"], keys=1)
        await reader.run_dry()
        assert await task_ids(reader.store) == ["task-001", "task-003"]
        await resubmit(reader)
        await reader.store.retire(reader.owner, now=reader.client._clock.now())

    async with process(starting(lambda event: int(event.body)), database.store(), tmp_path) as mended:
        assert await mended.run_dry() == 2
        assert await task_ids(mended.store) == ["task-001", "task-002", "task-003", "task-004"]
        assert await quarantined(mended.store) == []


@pytest.mark.parametrize("stage", [parse, asynchronous])
async def test_what_fails_again_is_in_quarantine_again(database: Database, tmp_path: Path, stage: Any):
    async with process(starting(stage), database.store(), tmp_path) as reader:
        await reader.append(["one"])
        await reader.run_dry()
        [before] = await quarantined(reader.store)
        await resubmit(reader, before.id)
        assert await reader.run_once() == 1

        [after] = await quarantined(reader.store)
        assert (after.event.offset, after.resubmitted) == (before.event.offset, False)
        assert await reader.run_once() == 0


async def test_a_full_quarantine_stops_the_partition_and_skips_nothing(database: Database, tmp_path: Path):
    alerts = counters[AlertKind.QUARANTINE_FULL]
    app = App("shop")
    seen: list[int] = []

    async def note(number: int) -> None:
        seen.append(number)

    app.stream(STREAM, partitions=1).source(group="g").map(parse).via(note)
    async with process(app, database.store(), tmp_path, quarantine_max=2) as reader:
        await reader.append([0, "a", 1, "b"], keys=1)
        await reader.run_once()
        assert len(await quarantined(reader.store)) == 2
        await reader.append([2, "c", 3], keys=1)
        await reader.run_once()

        [flow] = reader.pipeline.flows.values()
        assert flow.tally.stalled
        assert await checkpoints(reader.store) == {0: 4}
        assert counters[AlertKind.QUARANTINE_FULL] == alerts + 1
        await reader.ingest.checkpointer.write([flow.tally])
        assert counters[AlertKind.QUARANTINE_FULL] == alerts + 1

        await reader.store.retire(reader.owner, now=reader.client._clock.now())

    async with process(app, database.store(), tmp_path, quarantine_max=3) as roomier:
        await roomier.run_dry()
        assert len(await quarantined(roomier.store)) == 3
        assert await checkpoints(roomier.store) == {0: 7}
    assert seen == [0, 1, 2, 3, 2, 3]


async def test_a_partition_that_finds_no_room_in_quarantine_is_read_no_further_until_there_is_some(
    database: Database, tmp_path: Path
):
    app = App("shop")
    seen: list[int] = []
    mended = False

    def parsed(event: Event) -> int:
        return 0 if mended and event.body == "a" else parse(event)

    async def note(number: int) -> None:
        seen.append(number)

    app.stream(STREAM, partitions=1).source(group="g").map(parsed).via(note)
    async with process(app, database.store(), tmp_path, quarantine_max=1) as reader:
        reading = asyncio.create_task(reader.ingest.run())
        await reader.append(["a"], keys=1)
        [aside] = await eventually(lambda: quarantined(reader.store), bool)
        await reader.append(["b"], keys=1)
        await comes_true(lambda: any(flow.tally.stalled for flow in reader.pipeline.flows.values()))
        await reader.append([1, 2], keys=1)
        for _ in range(5):
            await asyncio.sleep(0.03)
            assert seen == []

        mended = True
        await resubmit(reader, aside.id)
        await comes_true(lambda: seen == [0, 1, 2])
        assert [one.event.body for one in await quarantined(reader.store)] == [b'"b"']
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
