"""A batch as one statement: when it is, and that it means the same as one step after the other."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from backstay.domain.stream import NewEvent, Stream
from backstay.errors import BackstayError
from backstay.messaging.embedded import EmbeddedLog, batch
from backstay.messaging.stream import Log
from backstay.testing import ManualClock
from backstay.testing.promises.feed import Feed
from tests.integration.embedded_log.file import OpenLog

WINDOW = timedelta(minutes=1)


@contextmanager
def statements(log: Log) -> Iterator[list[str]]:
    """What the one who writes runs meanwhile, by the first words of each; the same again counts once.

    Of what a trigger does, SQLite tells the statement that it is a part of.
    """
    assert isinstance(log, EmbeddedLog)
    assert log._writer is not None
    connection = log._writer._connection
    seen: list[str] = []

    def note(text: str) -> None:
        if seen[-1:] != [text[:17]]:
            seen.append(text[:17])

    connection.set_trace_callback(note)
    yield seen
    connection.set_trace_callback(None)


async def test_what_is_appended_to_a_stream_that_is_known_is_one_statement(feed: Feed):
    await feed.put("a")

    with statements(feed.log) as ran:
        await feed.append(*(feed.new(number, key=f"k{number}") for number in range(300)))

    assert ran == ["INSERT INTO batch"]


async def test_with_ids_they_are_looked_for_first(feed: Feed):
    await feed.put("a", id="e1")

    with statements(feed.log) as ran:
        await feed.append(*(feed.new(number, id=f"n{number}") for number in range(300)))

    assert [text for text in ran if not text.startswith("SELECT")] == ["INSERT INTO batch"]
    assert len(ran) == 2


async def test_a_few_that_come_in_one_turn_of_the_event_loop_are_one_commit(
    opened: OpenLog, clock: ManualClock
):
    commits: list[str] = []
    log = await opened(boundary=commits.append)
    feed = Feed(log, clock)
    await feed.declare()
    await feed.put("a")
    await until_it_sleeps(log)
    commits.clear()

    await asyncio.gather(*(feed.put(number) for number in range(10)))

    assert commits == ["before", "after"]


async def until_it_sleeps(log: EmbeddedLog) -> None:
    """Whoever writes has nothing to do, and waits to be called."""
    assert log._writer is not None
    while not log._writer._asleep:
        await asyncio.sleep(0)


async def test_two_streams_by_turns_are_both_known(feed: Feed):
    await feed.log.declare(Stream(name="others", partitions=4), now=feed.clock.now())
    events = [feed.new("a")]
    for stream in ("rides", "others"):
        await feed.log.append(stream, events, now=feed.clock.now())

    with statements(feed.log) as ran:
        for stream in ("rides", "others"):
            await feed.log.append(stream, events, now=feed.clock.now())

    assert ran == ["INSERT INTO batch"]


async def test_after_another_has_written_it_is_looked_at_anew(feed: Feed, opened: OpenLog):
    other = Feed(await opened(), feed.clock)
    await feed.put("a", key="k")
    await other.put("b", key="k")

    with statements(feed.log) as ran:
        await feed.put("c", key="k")
        await feed.put("d", key="k")

    assert ran[0] == "INSERT INTO batch"  # Refused; then step by step.
    assert ran[1] == "BEGIN IMMEDIATE"
    assert ran[-2:] == ["COMMIT", "INSERT INTO batch"]
    assert await feed.bodies() == ["a", "b", "c", "d"]


async def test_what_is_large_goes_step_by_step(feed: Feed, monkeypatch: pytest.MonkeyPatch):
    await feed.put("a")
    monkeypatch.setattr(batch, "PLAIN_BYTES_MAX", 1_000)

    with statements(feed.log) as ran:
        await feed.put("x" * 1_000)

    assert ran[0] == "BEGIN IMMEDIATE"
    assert len(await feed.bodies()) == 2


@pytest.mark.parametrize("seed", range(20))
async def test_both_ways_give_the_same_answers_and_leave_the_same_rows(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plainly = await _played(seed, tmp_path / "plainly.db")
    monkeypatch.setattr(batch, "PLAIN_EVENTS_MAX", -1)
    step_by_step = await _played(seed, tmp_path / "step-by-step.db")

    assert plainly == step_by_step
    assert _content(tmp_path / "plainly.db") == _content(tmp_path / "step-by-step.db")


async def _played(seed: int, path: Path) -> list[Any]:
    """What two writers of one file are answered who append as chance has it, and time passes."""
    random, clock = Random(seed), ManualClock()
    writers = [EmbeddedLog(f"sqlite:///{path}") for _ in range(2)]
    for one in writers:
        await one.open()
    for name in ("rides", "trips"):
        stream = Stream(name=name, partitions=4, dedup=WINDOW, bytes_max=40_000)
        await writers[0].declare(stream, now=clock.now())
    answers: list[Any] = []
    for _ in range(60):
        log = writers[random.random() < 0.2]
        asked = [
            log.append(random.choice(["rides", "rides", "trips"]), _events(random), now=clock.now())
            for _ in range(random.randint(1, 4))
        ]
        answers += await asyncio.gather(*asked, return_exceptions=True)
        clock.pass_time(timedelta(seconds=random.choice([0, 0, 1, 40])))
    for one in writers:
        await one.close()
    return [_told(answer) for answer in answers]


def _events(random: Random) -> list[NewEvent]:
    return [
        NewEvent(
            body=random.choice(
                [b'"a"', b'{"b":"\\u00e4\\"\\n"}', '"ä€"'.encode(), b"1.50", b'"%s"' % (b"x" * 300)]
            ),
            key=random.choice([None, "k1", "ключ", "k 2"]),
            id=random.choice([None, None, *(f"e{number}" for number in range(30))]),
            headers=random.choice([None, {"source": "drône"}]),
        )
        for _ in range(random.randint(1, 6))
    ]


def _told(answer: Any) -> Any:
    if isinstance(answer, BackstayError):
        return type(answer).__name__, str(answer)
    return [(type(one).__name__, str(one)) if isinstance(one, BackstayError) else one for one in answer]


def _content(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
            for table in ("event", "partition", "id_slot", "known_id")
        ]
