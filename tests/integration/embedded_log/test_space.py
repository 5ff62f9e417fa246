"""A file does not grow for ever: what is forgotten makes room, and much of it is given back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from backstay.messaging.embedded import EmbeddedLog, batch, forgetting
from backstay.testing.promises.feed import HOUR, MINUTE, Feed

WINDOW = timedelta(minutes=10)


def value(path: Path, query: str) -> int:
    with closing(sqlite3.connect(path)) as database:
        [found] = database.execute(query).fetchone()
        return int(found)


async def append_many(feed: Feed, number: int) -> None:
    for _ in range(number // 100):
        await feed.append(*(feed.new("x" * 500, key=f"k{key}") for key in range(100)))


async def test_what_comes_and_goes_takes_the_same_place(path: Path, feed: Feed):
    await feed.declare(retention=HOUR)
    sizes = []
    for _ in range(5):
        await append_many(feed, 1_000)
        feed.clock.pass_time(2 * HOUR)
        assert await feed.trim(limit=1_000) == 1_000
        sizes.append(value(path, "PRAGMA page_count"))

    # The end of each partition lies elsewhere; that is all that differs.
    assert sizes[-1] <= sizes[0] * 1.2


async def test_what_is_free_after_a_flood_is_given_back_a_bounded_piece_at_a_time(
    path: Path, feed: Feed, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(forgetting, "FREE_PAGES_LEAST", 10)
    monkeypatch.setattr(forgetting, "PAGES_GIVEN_BACK", 30)
    await feed.declare(retention=HOUR)
    await append_many(feed, 2_000)
    full = value(path, "PRAGMA page_count")
    feed.clock.pass_time(2 * HOUR)

    await feed.trim(limit=2_000)
    once = value(path, "PRAGMA page_count")
    for _ in range(20):
        await feed.trim()

    assert full - once == 30
    assert value(path, "PRAGMA page_count") < full / 4
    assert value(path, "PRAGMA freelist_count") < 10


async def test_trims_of_many_are_several_transactions(
    log: EmbeddedLog, feed: Feed, monkeypatch: pytest.MonkeyPatch
):
    await feed.declare(retention=HOUR)
    await append_many(feed, 300)
    feed.clock.pass_time(2 * HOUR)
    assert log._writer is not None
    commits: list[str] = []
    monkeypatch.setattr(log._writer, "_boundary", commits.append)
    monkeypatch.setattr("backstay.messaging.embedded.log.STEP", 100)

    assert await feed.trim(limit=250) == 250

    # Each takes as many as it may, or ends where it would have to look further.
    assert commits.count("after") >= 3
    assert len(await feed.everything()) == 50


# Ids


async def test_ids_that_no_longer_count_go_as_new_ones_come(path: Path, feed: Feed):
    await feed.declare(dedup=WINDOW)
    for number in range(40):
        await feed.append(*(feed.new(key, id=f"{number}-{key}") for key in range(50)))
        nine_minutes_ago = [feed.new(key, id=f"{max(0, number - 9)}-{key}") for key in range(50)]
        assert all(one.duplicate for one in await feed.put_all(*nine_minutes_ago))
        feed.clock.pass_time(MINUTE)

    # Ten minutes' worth counts, and a slot of five goes when the youngest in it is too old.
    assert value(path, "SELECT count(*) FROM known_id") <= 50 * 16
    assert value(path, "SELECT count(*) FROM id_slot") <= 4


async def test_ids_of_a_stream_that_fell_silent_go_by_and_by(
    path: Path, feed: Feed, monkeypatch: pytest.MonkeyPatch
):
    await feed.declare(dedup=WINDOW)
    await feed.append(*(feed.new(key, id=f"e{key}") for key in range(50)))
    feed.clock.pass_time(2 * WINDOW)

    await feed.trim(limit=30)
    assert value(path, "SELECT count(*) FROM known_id") == 20
    await feed.trim(limit=30)

    assert value(path, "SELECT count(*) FROM known_id") == 0
    assert value(path, "SELECT count(*) FROM id_slot") == 0


async def test_a_backlog_of_old_ids_is_worked_off_a_bounded_piece_at_a_time(
    path: Path, feed: Feed, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(batch, "FORGOTTEN_LEAST", 10)
    await feed.declare(dedup=WINDOW)
    await feed.append(*(feed.new(key, id=f"e{key}") for key in range(50)))
    feed.clock.pass_time(2 * WINDOW)

    left = []
    for number in range(6):
        await feed.put(number, id=f"new-{number}")
        left.append(value(path, "SELECT count(*) FROM known_id WHERE id LIKE 'e%'"))

    assert left == [40, 30, 20, 10, 0, 0]


async def test_a_window_that_was_shortened_forgets_nothing_that_still_counts(feed: Feed):
    await feed.declare(dedup=2 * HOUR)
    await feed.put("a", id="e1")
    feed.clock.pass_time(30 * MINUTE)
    await feed.put("b", id="e2")
    await feed.declare(dedup=WINDOW)

    feed.clock.pass_time(MINUTE)
    await feed.trim()

    assert (await feed.put("b", id="e2")).duplicate
    assert not (await feed.put("a", id="e1")).duplicate
