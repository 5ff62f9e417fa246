"""A stage that is far too slow for what waits: the log holds it, the process does not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from backstay import Event
from backstay.runtime import connected
from tests.chaos.matrix import FULL
from tests.chaos.stream_work import KEYS, STREAM, Place, ingest, reading
from tests.chaos.workload import started
from tests.support.databases import SqliteDatabase
from tests.support.memory import rss_kib

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

WAITING = 1_000_000 if FULL else 200_000
WATCHED_SECONDS = 30.0 if FULL else 3.0
#: Ten a second: as many at a time, a second each.
PAUSE_SECONDS = 1.0
PATIENCE_SECONDS = 60
APPENDED_AT_ONCE = 10_000

#: With the default window every partition may hold 10,000 events; the process as a whole 64 MiB.
GROWTH_MAX_KIB = 96 * 1024


async def test_a_stage_at_ten_a_second_keeps_memory_flat_whatever_waits(
    tmp_path: Path, sqlite_database: SqliteDatabase
):
    """QL-1."""
    settings = {"window": "10000", "max_pending": "100"}
    place = Place(tmp_path, sqlite_database.url, settings, pause_seconds=PAUSE_SECONDS)
    async with connected(reading(place).registry, place.loaded()) as client:
        await client.streams.declare_all()
        idle = started(ingest, place)
        at_rest = settled_kib(idle.pid)
        idle.kill()
        idle.join()
        for begin in range(0, WAITING, APPENDED_AT_ONCE):
            lot = range(begin, min(begin + APPENDED_AT_ONCE, WAITING))
            await client.stream(STREAM).append_all(
                [Event(body=number, key=f"key-{number % KEYS}") for number in lot]
            )

    child = started(ingest, place)
    try:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while len(place.seen()) < 20:
            assert time.monotonic() < give_up_at
            time.sleep(0.05)
        watched_until = time.monotonic() + WATCHED_SECONDS
        most = 0
        while time.monotonic() < watched_until:
            most = max(most, rss_kib(child.pid))
            time.sleep(0.05)
    finally:
        child.kill()
        child.join()

    print(f"at rest {at_rest:,} KiB, at most {most:,} KiB with {WAITING:,} events waiting")
    assert len(place.seen()) < 10 * (PATIENCE_SECONDS + WATCHED_SECONDS)
    assert most - at_rest < GROWTH_MAX_KIB


def settled_kib(pid: int | None) -> int:
    """The memory of a process that has nothing to do, once it is up."""
    found, last = 0, -1
    while found != last or not found:
        last = found
        time.sleep(0.5)
        found = rss_kib(pid)
    return found
