"""Readers of a stream that are killed again and again: nothing is skipped, every task is started once."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom

import pytest

from backstay.runtime import connected
from tests.chaos.stream_work import (
    EVERY,
    PARTITIONS,
    STREAM,
    WINDOW,
    Place,
    event,
    in_order_of_keys,
    ingest,
    is_bad,
    reading,
    repeated,
)
from tests.chaos.workload import started
from tests.support.databases import Database

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

FULL = os.environ.get("BACKSTAY_TEST_CHAOS") == "full"
SEED = int(os.environ.get("BACKSTAY_TEST_SEED") or SystemRandom().randrange(10**6))
EVENTS, KILLS = (5_000, 10) if FULL else (1_500, 4)
PATIENCE_SECONDS = 120


async def test_a_reader_killed_again_and_again_skips_nothing_and_starts_each_task_once(
    tmp_path: Path, database: Database
):
    """DX-04, EH-08: what is repeated lies within a checkpoint's interval and what was in hand."""
    print(f"seed {SEED} (again with BACKSTAY_TEST_SEED={SEED})")
    chance = Random(SEED)
    place = Place(tmp_path, database.url, database.heir())
    app = reading(place)
    async with connected(app.registry, place.loaded()) as client:
        await client.streams.declare_all()
        await client.stream(STREAM).append_all([event(number) for number in range(EVENTS)])

        child = started(ingest, place)
        for kill in range(1, KILLS + 1):
            # Somewhere on the way, so that every kill meets a reader at work.
            until(lambda after: len({*place.seen()}) >= after, EVENTS * kill // (KILLS + 1))
            time.sleep(chance.uniform(0, 0.05))
            child.kill()
            child.join()
            child = started(ingest, place)

        async def passed() -> int:
            standings = await client._store.groups.standings(STREAM)
            return sum(one.checkpoint or 0 for one in standings)

        try:
            give_up_at = time.monotonic() + PATIENCE_SECONDS
            while await passed() < 2 * EVENTS:
                assert time.monotonic() < give_up_at, await client._store.groups.standings(STREAM)
                await asyncio.sleep(0.05)
        finally:
            child.kill()
            child.join()
        aside = await client._store.groups.quarantine(STREAM, limit=EVENTS)

    seen = place.seen()
    assert {number for _, number in seen} == set(range(EVENTS))
    assert in_order_of_keys(seen)
    assert repeated(seen) <= KILLS * PARTITIONS * (EVERY + WINDOW)
    bad = {number for number in range(EVENTS) if is_bad(number)}
    ids = sorted(name for (name,) in database.rows("SELECT id FROM task"))
    assert ids == sorted(f"task-{number}" for number in range(EVENTS) if number not in bad)
    assert sorted(one.event.body for one in aside) == sorted(f'"bad-{number}"'.encode() for number in bad)
    assert {one.group.name for one in aside} == {"tasks"}


def until(holds: Callable[[int], bool], after: int) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not holds(after):
        assert time.monotonic() < give_up_at, f"nobody got as far as {after}"
        time.sleep(0.01)
