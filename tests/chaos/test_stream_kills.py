"""Readers of a stream that are killed again and again: nothing is skipped, every task is started once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from backstay.client import Client
from backstay.runtime import connected
from tests.chaos.matrix import FULL, SEED, Healing, Part, Watch, failure
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
    number_of,
    reading,
    repeated,
)
from tests.chaos.workload import started
from tests.support.databases import Database

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

EVENTS, KILLS = (5_000, 10) if FULL else (1_500, 4)
PATIENCE_SECONDS = 120


@failure(
    "a pipeline is killed",
    of=Part.DOORS,
    seen="its partitions stand still; `via` may see again what came after the last checkpoint",
    heals="another process takes the partitions, or the same one at its start, from the checkpoint on",
    takes="`lease`; on SQLite at once",
    within="120s",
    invariants=(2, 4, 10, 11, 14),
)
async def test_when_a_pipeline_is_killed_it_skips_nothing_and_starts_each_task_once(
    tmp_path: Path, database: Database, watch: Watch, healing: Healing
):
    """DX-04, EH-08: what is repeated lies within a checkpoint's interval and what was in hand."""
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
            with healing():
                while await passed() < 2 * EVENTS:
                    assert time.monotonic() < give_up_at, await client._store.groups.standings(STREAM)
                    await asyncio.sleep(0.05)
        finally:
            child.kill()
            child.join()
        aside = await client._store.groups.quarantine(STREAM, limit=EVENTS)
        await tell(watch, client, place)

    seen = place.seen()
    assert {number for _, number in seen} == set(range(EVENTS))
    assert in_order_of_keys(seen)
    assert repeated(seen) <= KILLS * PARTITIONS * (EVERY + WINDOW)
    bad = {number for number in range(EVENTS) if is_bad(number)}
    ids = sorted(name for (name,) in database.rows("SELECT id FROM task"))
    assert ids == sorted(f"task-{number}" for number in range(EVENTS) if number not in bad)
    assert sorted(one.event.body for one in aside) == sorted(f'"bad-{number}"'.encode() for number in bad)
    assert {one.group.name for one in aside} == {"tasks"}


async def tell(watch: Watch, client: Client, place: Place) -> None:
    """When each event was processed, and that nobody runs the tasks."""
    first: dict[int, int] = {}
    for _, number, at in place.noted():
        first.setdefault(number, at)
    for partition in range(PARTITIONS):
        events = await client.stream(STREAM).read(partition, start=0, limit=EVENTS)
        watch.facts.handled[f"{STREAM}/lines/{partition}"] = {
            one.offset: first[number_of(one)] for one in events if number_of(one) in first
        }
        watch.facts.first_kept[f"{STREAM}/{partition}"] = events[0].offset
    watch.facts.open = {f"task-{number}" for number in range(EVENTS)}


def until(holds: Callable[[int], bool], after: int) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not holds(after):
        assert time.monotonic() < give_up_at, f"nobody got as far as {after}"
        time.sleep(0.01)
