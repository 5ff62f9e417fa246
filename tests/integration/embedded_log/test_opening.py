"""The file comes with the first stream; files that are refused stay untouched."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from backstay.domain.stream import NewEvent, Stream
from backstay.errors import Closed, InvalidSetting, StoreTooNew, StoreUnavailable, UnknownStream
from backstay.messaging.embedded import EmbeddedLog
from backstay.store.sqlite import SqliteStore
from backstay.testing import ManualClock
from backstay.testing.promises.feed import Feed
from tests.integration.embedded_log.file import OpenLog
from tests.integration.sqlite.file import change, rows

RIDES = Stream(name="rides", partitions=4)


async def test_a_log_without_streams_has_no_file(path: Path, opened: OpenLog, clock: ManualClock):
    log = await opened()

    assert await log.standings(limit=10) == []
    assert await log.trim("rides", {}, now=clock.now(), limit=10) == 0
    assert await log.oldest("rides", {0: 0}) == {}
    with pytest.raises(UnknownStream):
        await log.append("rides", [NewEvent(body=b"1")], now=clock.now())
    with pytest.raises(UnknownStream):
        await log.stream("rides")
    log.listen(print)
    await log.room()

    assert not path.exists()


async def test_the_first_stream_makes_the_file(path: Path, opened: OpenLog, clock: ManualClock):
    log = await opened()

    assert await log.declare(RIDES, now=clock.now())

    assert path.exists()
    assert await log.stream("rides") == RIDES


async def test_several_streams_declared_at_once_share_the_file(opened: OpenLog, clock: ManualClock):
    log = await opened()

    new = await asyncio.gather(
        *(log.declare(Stream(name=f"s{number % 5}"), now=clock.now()) for number in range(10))
    )

    assert new.count(True) == 5
    assert len(await log.standings(limit=10)) == 5


async def test_a_file_that_another_process_made_meanwhile_is_found(opened: OpenLog, clock: ManualClock):
    early, other = await opened(), await opened()
    await other.declare(RIDES, now=clock.now())

    assert await early.stream("rides") == RIDES
    answers: list[Any] = []
    early.post("rides", [NewEvent(body=b"1")], answers.append, at=clock.micros())
    await early.close()
    [[placed]] = answers
    assert placed.offset == 0


async def test_a_log_that_must_exist_and_does_not_has_no_streams(path: Path):
    log = EmbeddedLog(f"sqlite:///{path}")
    await log.open(must_exist=True)

    assert await log.standings(limit=10) == []

    await log.close()
    assert not path.exists()


async def test_a_post_to_a_log_without_a_file_is_answered_at_once(opened: OpenLog, clock: ManualClock):
    answers: list[object] = []

    (await opened()).post("rides", [NewEvent(body=b"1")], answers.append, at=clock.micros())

    [answer] = answers
    assert isinstance(answer, UnknownStream)


async def test_a_log_of_a_newer_release_is_refused_and_not_touched(path: Path, feed: Feed):
    await feed.log.close()
    change(path, "INSERT INTO migration VALUES (999, 'from_the_future', 'x')")
    before = rows(path)

    with pytest.raises(StoreTooNew, match="has schema 999"):
        await EmbeddedLog(f"sqlite:///{path}").open()

    assert rows(path) == before


async def test_a_file_that_is_no_database_is_refused_and_not_touched(path: Path, clock: ManualClock):
    path.write_bytes(b"these are my notes\n" * 100)
    log = EmbeddedLog(f"sqlite:///{path}")

    with pytest.raises(StoreUnavailable, match="file is not a database"):
        await log.open()

    assert path.read_bytes().startswith(b"these are my notes")


async def test_a_damaged_file_is_an_error_and_no_empty_log(path: Path, feed: Feed):
    for number in range(200):
        await feed.put("x" * 500, key=f"k{number}")
    await feed.log.close()
    content = bytearray(path.read_bytes())
    content[4096 * 3 :] = b"\xff" * (len(content) - 4096 * 3)
    path.write_bytes(content)
    log = EmbeddedLog(f"sqlite:///{path}")

    with pytest.raises(StoreUnavailable, match="malformed"):
        await read_all(log, feed)

    await log.close()


async def read_all(log: EmbeddedLog, feed: Feed) -> None:
    await log.open()
    await Feed(log, feed.clock).everything()


async def test_the_file_of_a_state_store_is_refused_and_not_touched(path: Path, clock: ManualClock):
    store = SqliteStore(f"sqlite:///{path}")
    await store.open()
    await store.close()
    before = rows(path)

    with pytest.raises(StoreUnavailable, match="differs from the one in this release"):
        await EmbeddedLog(f"sqlite:///{path}").open()

    assert rows(path) == before


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path, clock: ManualClock):
    log = EmbeddedLog(f"sqlite:///{tmp_path}/nowhere/log.db")
    await log.open()

    with pytest.raises(StoreUnavailable, match=r"log\.db: unable to open database file"):
        await log.declare(RIDES, now=clock.now())

    await log.close()


def test_another_kind_of_address_is_refused():
    with pytest.raises(InvalidSetting, match=r"streams is 'log\.db'; write sqlite:///relative\.db or"):
        EmbeddedLog("log.db")


async def test_a_log_that_is_not_open_refuses_everything(log: EmbeddedLog, feed: Feed, clock: ManualClock):
    await log.close()
    await log.close()

    with pytest.raises(Closed):
        await log.declare(RIDES, now=clock.now())
    with pytest.raises(Closed):
        await log.append("rides", [NewEvent(body=b"1")], now=clock.now())
    with pytest.raises(Closed):
        log.post("rides", [NewEvent(body=b"1")], print, at=clock.micros())
    with pytest.raises(Closed):
        await log.standings(limit=1)
    with pytest.raises(Closed):
        await log.trim("rides", {}, now=clock.now(), limit=1)
