"""What was acknowledged is on the disk, and nothing is acknowledged before."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from backstay.domain.instants import micros
from backstay.domain.stream import NewEvent
from backstay.errors import Conflict, EventConflict, StoreFull, StoreUnavailable, UnknownStream
from backstay.messaging.embedded import EmbeddedLog
from backstay.messaging.embedded.tables import Tables
from backstay.sql.sqlite import connection
from backstay.testing import ManualClock
from backstay.testing.promises.feed import Feed, body_of
from tests.integration.embedded_log.file import OpenLog


async def test_the_writing_connection_waits_for_the_disk_at_each_commit(log: EmbeddedLog, feed: Feed):
    def settings(tables: Tables) -> list[object]:
        pragmas = ("journal_mode", "synchronous", "auto_vacuum")
        return [tables.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]

    full, incremental = 2, 2
    assert log._writer is not None
    assert await log._writer.call(settings) == ["wal", full, incremental]


async def test_everything_is_there_after_the_log_was_closed_and_opened_again(
    log: EmbeddedLog, feed: Feed, opened: OpenLog
):
    for number in range(10):
        await feed.put(number, key=f"k{number}", id=f"e{number}", headers={"n": str(number)})
    before = await feed.everything(), await feed.standing()
    await log.close()

    again = Feed(await opened(), feed.clock)

    assert (await again.everything(), await again.standing()) == before
    assert (await again.put(3, key="k3", id="e3")).duplicate


async def test_nothing_is_settled_before_its_commit(opened: OpenLog, clock: ManualClock):
    reached, allowed = threading.Event(), threading.Event()
    allowed.set()

    def boundary(moment: str) -> None:
        if moment == "before":
            reached.set()
            assert allowed.wait(10)

    feed = Feed(await opened(boundary=boundary), clock)
    await feed.declare()
    reached.clear()
    allowed.clear()

    answer = asyncio.ensure_future(feed.put("a"))
    await asyncio.sleep(0)
    await asyncio.to_thread(reached.wait, 10)
    assert not answer.done()
    assert await feed.everything() == []
    allowed.set()

    placed = await answer
    assert [event.offset for event in await feed.everything()] == [placed.offset]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_crash_beside_a_commit_leaves_all_of_it_or_nothing(
    opened: OpenLog, clock: ManualClock, path: Path, tmp_path: Path, moment: str
):
    copies: list[Path] = []

    def boundary(reached: str) -> None:
        # What a crash at this very moment would leave: the file, and what is in its log.
        if reached == moment:
            copies.append(copied(path, tmp_path / f"crash-{len(copies)}"))

    feed = Feed(await opened(boundary=boundary), clock)
    await feed.declare()
    placed = await feed.put_all(
        *(feed.new(number, key=f"k{number}", id=f"e{number}") for number in range(50))
    )

    left = EmbeddedLog(f"sqlite:///{copies[-1]}")
    await left.open()
    resumed = Feed(left, clock)
    found = await resumed.everything()
    assert len(found) == (50 if moment == "after" else 0)
    again = await resumed.put_all(
        *(resumed.new(number, key=f"k{number}", id=f"e{number}") for number in range(50))
    )
    assert [one.duplicate for one in again] == [moment == "after"] * 50
    assert [(one.partition, one.offset) for one in again] == [(one.partition, one.offset) for one in placed]
    await left.close()


def copied(path: Path, folder: Path) -> Path:
    folder.mkdir()
    for part in path.parent.glob(f"{path.name}*"):
        if not part.name.endswith("-shm"):
            (folder / part.name).write_bytes(part.read_bytes())
    return folder / path.name


# A database that fails


@pytest.fixture
async def disk(log: EmbeddedLog, feed: Feed) -> Any:
    """Call it with ``full`` to fill the disk, or to make room again."""

    def limit(*, full: bool) -> None:
        # Straight on the writing connection: while it is full, nothing gets through the front door.
        assert log._writer is not None
        database = log._writer._connection
        [pages] = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages if full else 2**30}").fetchone()

    return limit


async def test_an_append_without_room_on_the_disk_fails_as_a_whole_and_the_next_goes_on(
    feed: Feed, disk: Any
):
    before = await feed.put("before", key="k")
    disk(full=True)

    with pytest.raises(StoreFull, match="no room left"):
        await feed.append(feed.new("small", key="k", id="e1"), feed.new("x" * 50_000, key="k", id="e2"))

    assert await feed.bodies() == ["before"]
    disk(full=False)
    [small, large] = await feed.put_all(
        feed.new("small", key="k", id="e1"), feed.new("x" * 50_000, key="k", id="e2")
    )
    assert not small.duplicate
    assert before.offset < small.offset < large.offset
    assert len(await feed.everything()) == 3


async def test_a_file_that_others_hold_too_long_fails_the_append_and_the_next_goes_on(
    path: Path, clock: ManualClock, opened: OpenLog, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 20)
    feed = Feed(await opened(), clock)
    await feed.declare()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreUnavailable, match="another process held the write lock"):
            await feed.put("a")

    await feed.put("b")
    assert await feed.bodies() == ["b"]


async def test_an_append_that_breaks_a_rule_of_the_schema_fails_alone(feed: Feed):
    given = [feed.put("good"), feed.put("bad", key="x" * 201), feed.put("good too")]

    good, bad, good_too = await asyncio.gather(*given, return_exceptions=True)

    assert isinstance(bad, Conflict)
    assert not isinstance(good, BaseException)
    assert not isinstance(good_too, BaseException)
    assert sorted(await feed.bodies()) == ["good", "good too"]


async def test_nothing_is_left_of_an_append_that_fails_at_its_last_event(feed: Feed):
    await feed.declare("narrow", partitions=1)
    # More than one statement writes, so that some of it was written when the last one is refused.
    good = [feed.new(number) for number in range(1_100)]

    with pytest.raises(Conflict):
        await feed.append(*good, feed.new("bad", key="x" * 201), to="narrow")

    assert await feed.bodies("narrow") == []
    await feed.put("next", to="narrow")
    assert await feed.bodies("narrow") == ["next"]


async def test_a_value_that_no_column_takes_fails_alone(log: EmbeddedLog, feed: Feed, clock: ManualClock):
    wrong = NewEvent(body={"not": "bytes"})  # type: ignore[arg-type]

    bad, good = await asyncio.gather(
        log.append("rides", [wrong], now=clock.now()), feed.put("good"), return_exceptions=True
    )

    assert isinstance(bad, Conflict)
    assert not isinstance(good, BaseException)
    assert await feed.bodies() == ["good"]


@pytest.mark.parametrize(
    "change", ["UPDATE event SET body = x'31'", "UPDATE partition SET end_offset = end_offset - 1"]
)
async def test_what_was_appended_cannot_be_changed_or_taken_back(path: Path, feed: Feed, change: str):
    await feed.put("a")

    with closing(sqlite3.connect(path)) as other, pytest.raises(sqlite3.IntegrityError):
        other.execute(change)

    assert [body_of(event) for event in await feed.everything()] == ["a"]


# Those who would rather be called


async def test_who_is_called_hears_what_who_waits_would(log: EmbeddedLog, feed: Feed):
    await feed.put("a", id="e1")
    answers: list[Any] = []
    posted = [feed.new("a", id="e1"), feed.new("b", id="e1"), feed.new("c", key="k")]

    log.post("rides", posted, answers.append, at=micros(feed.now))
    log.post("nowhere", posted, answers.append, at=micros(feed.now))
    await log.close()

    [[known, refused, new], failure] = answers
    assert (known.duplicate, new.duplicate) == (True, False)
    assert isinstance(refused, EventConflict)
    assert isinstance(failure, UnknownStream)


async def test_one_who_fails_when_called_leaves_the_others_their_answers(
    log: EmbeddedLog, feed: Feed, caplog: pytest.LogCaptureFixture
):
    def fail(_answer: object) -> None:
        raise RuntimeError("not ready for that")

    log.post("rides", [feed.new("a")], fail, at=micros(feed.now))
    await feed.put("b")

    assert sorted(await feed.bodies()) == ["a", "b"]
    assert "not ready for that" in caplog.text


# Closing


async def test_what_was_handed_in_before_closing_is_written(log: EmbeddedLog, feed: Feed, opened: OpenLog):
    answers: list[Any] = []
    for number in range(10):
        log.post("rides", [feed.new(number)], answers.append, at=micros(feed.now))

    await log.close()

    assert len(answers) == 10
    assert sorted(await Feed(await opened(), feed.clock).bodies()) == [*range(10)]


async def test_a_closed_log_holds_on_to_nothing(log: EmbeddedLog, feed: Feed, path: Path):
    await feed.put("a")
    assert [thread for thread in threading.enumerate() if thread.name.startswith("backstay")]

    await log.close()

    assert [thread for thread in threading.enumerate() if thread.name.startswith("backstay")] == []
    assert not path.with_name("log.db-wal").exists()


async def test_who_no_longer_waits_has_appended_all_the_same(feed: Feed):
    waiting = asyncio.ensure_future(feed.put("a"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    await feed.put("b")

    assert sorted(await feed.bodies()) == ["a", "b"]
