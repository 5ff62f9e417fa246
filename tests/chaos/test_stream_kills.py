"""Readers of a stream that are killed again and again: nothing is skipped, every task is started once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from backstay.client import Client
from backstay.domain.stream import Appended
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
    reading,
    repeated,
)
from tests.chaos.workload import started
from tests.support.databases import Database
from tests.support.running import eventually

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
    invariants=(2, 4, 10, 11, 14, 15),
)
async def test_when_a_pipeline_is_killed_it_skips_nothing_and_starts_each_task_once(
    tmp_path: Path, database: Database, watch: Watch, healing: Healing
):
    """DX-04, EH-08: what is repeated lies within a checkpoint's interval and what was in hand.

    Whoever begins to read has the log forget what is older than a second, and was read by both groups.
    """
    pauses: list[float] = watch.facts.planned(plan, SEED)
    place = Place(tmp_path, database.url, {**database.heir(), "stream_retention": "1s"})
    app = reading(place)
    async with connected(app.registry, place.loaded()) as client:
        await client.streams.declare_all()
        child = started(ingest, place)
        # A group that nobody has heard of yet keeps no event from being forgotten.
        await eventually(lambda: known(client), lambda number: number == 2 * PARTITIONS, what="both groups")
        answers = await client.stream(STREAM).append_all([event(number) for number in range(EVENTS)])
        places = [one for one in answers if isinstance(one, Appended)]

        for kill, pause_seconds in enumerate(pauses, 1):
            # Somewhere on the way, so that every kill meets a reader at work.
            until(lambda after: len({*place.seen()}) >= after, EVENTS * kill // (KILLS + 1))
            time.sleep(pause_seconds)
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
        first_kept = await forgotten_before(client)

    seen = place.seen()
    assert {number for _, number in seen} == set(range(EVENTS))
    assert in_order_of_keys(seen)
    assert repeated(seen) <= KILLS * PARTITIONS * (EVERY + WINDOW)
    tell(watch, place, places, first_kept)
    assert any(first_kept.values()), "nothing was forgotten meanwhile"
    bad = {number for number in range(EVENTS) if is_bad(number)}
    ids = sorted(name for (name,) in database.rows("SELECT id FROM task"))
    assert ids == sorted(f"task-{number}" for number in range(EVENTS) if number not in bad)
    assert sorted(one.event.body for one in aside) == sorted(f'"bad-{number}"'.encode() for number in bad)
    assert {one.group.name for one in aside} == {"tasks"}


def plan(chance: Random) -> list[float]:
    """How long each kill waits once a reader is at work."""
    return [chance.uniform(0, 0.05) for _ in range(KILLS)]


async def known(client: Client) -> int:
    """How many partitions there are, over all groups, of which the store knows how far they are read."""
    return len(await client._store.groups.standings(STREAM))


async def forgotten_before(client: Client) -> dict[int, int]:
    """The first offset that is still there, by partition."""
    [standing] = await client.streams.standings(after="", limit=1)
    return {one.partition: one.first for one in standing.partitions}


def tell(watch: Watch, place: Place, places: Sequence[Appended], first_kept: Mapping[int, int]) -> None:
    """When each event was processed, what is still there, and that nobody runs the tasks."""
    seen_at: dict[int, int] = {}
    for _, number, at in place.noted():
        seen_at.setdefault(number, at)
    for number, one in enumerate(places):
        unit = watch.facts.handled.setdefault(f"{STREAM}/lines/{one.partition}", {})
        if number in seen_at:
            unit[one.offset] = seen_at[number]
    watch.facts.first_kept = {f"{STREAM}/{partition}": first for partition, first in first_kept.items()}
    watch.facts.open = {f"task-{number}" for number in range(EVENTS)}


def until(holds: Callable[[int], bool], after: int) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not holds(after):
        assert time.monotonic() < give_up_at, f"nobody got as far as {after}"
        time.sleep(0.01)
