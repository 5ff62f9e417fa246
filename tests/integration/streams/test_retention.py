"""What a log may forget: what is too old, or too much, and every group has passed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from backstay import App, Event
from backstay.testing import ManualClock
from tests.support.databases import SqliteDatabase
from tests.support.ingesting import STREAM, Process, process


async def nothing(event: Event) -> None:
    """Nothing at all."""


async def first(reader: Process) -> int:
    [standing] = await reader.client.streams.standings(names=[STREAM], limit=1)
    return standing.partitions[0].first


async def test_what_every_group_has_passed_goes_when_it_is_old(
    sqlite_database: SqliteDatabase, tmp_path: Path
):
    """EH-03: and never what the slowest group has yet to read."""
    clock = ManualClock()
    app = App("shop")
    stream = app.stream(STREAM, partitions=1, retention="1h")
    stream.source(group="quick").via(nothing)
    stream.source(group="slow").via(nothing)
    async with process(app, sqlite_database.store(), tmp_path, clock=clock) as reader:
        quick, slow = reader.ingest.pipelines
        await reader.append(range(10))
        await quick.run_once()
        await slow._holder.run_once()
        clock.pass_time(timedelta(hours=2))
        assert await reader.ingest.retention.run_once() == 0

        await slow.run_once()
        await reader.append(range(5))
        assert await reader.ingest.retention.run_once() == 10
        assert await first(reader) == 10


async def test_a_stream_that_nobody_reads_goes_by_time_alone(sqlite_database: SqliteDatabase, tmp_path: Path):
    clock = ManualClock()
    app = App("shop")
    app.stream(STREAM, partitions=1, retention="1h")
    async with process(app, sqlite_database.store(), tmp_path, clock=clock) as reader:
        await reader.append(range(10))
        assert await reader.ingest.retention.run_once() == 0
        clock.pass_time(timedelta(hours=2))
        assert await reader.ingest.retention.run_once() == 10


async def test_a_group_whose_place_was_forgotten_goes_on_at_the_first_event_there_is(
    sqlite_database: SqliteDatabase, tmp_path: Path
):
    """IR-5."""
    clock = ManualClock()
    seen: list[int] = []

    async def note(event: Event) -> None:
        seen.append(event.body)

    before = App("shop")
    before.stream(STREAM, partitions=1, retention="1h")
    async with process(before, sqlite_database.store(), tmp_path, clock=clock) as reader:
        await reader.append(range(10))
        clock.pass_time(timedelta(hours=2))
        await reader.append(range(10, 13))
        await reader.run_once()

    app = App("shop")
    app.stream(STREAM, partitions=1, retention="1h").source(group="late").via(note)
    async with process(app, sqlite_database.store(), tmp_path, clock=clock) as reader:
        await reader.run_dry()

    assert sorted(seen) == [10, 11, 12]
