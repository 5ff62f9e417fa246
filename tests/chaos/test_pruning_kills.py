"""What has ended is forgotten at once, in processes that are killed meanwhile: nobody misses any of it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from backstay import App, Permanent, Recovery, start
from backstay.client import Client
from backstay.errors import Unavailable
from backstay.runtime import Running, connected
from backstay.runtime.pruning import prune_store
from backstay.settings import Settings
from tests.chaos.matrix import FULL, SEED, Healing, Part, Watch, failure
from tests.chaos.service import Service
from tests.chaos.workload import FORWARD, IN_FLIGHT, UNDOABLE, Site, orders, started
from tests.support.databases import Database

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

#: One who works or one who prunes is killed each second, for a minute; in short, a few in a row.
KILLS, EVERY_SECONDS = (60, 1.0) if FULL else (6, 0.5)
#: So many baskets are bought before each kill, and of ten of them one is sent back.
PER_KILL = 20 if FULL else 10
SENT_BACK_SHARE = 0.1
PATIENCE_SECONDS = 120
SETTINGS = {"heartbeat": "250ms", "lease": "2s", "supervisor_period": "100ms", "recoveries_max": "1000000"}

OPEN = "SELECT count(*) FROM task WHERE state NOT IN ('processed', 'undone')"
KEPT = "SELECT id FROM task ORDER BY key"
#: Of whom something is left, and nothing else.
ORPHANED = """
    SELECT task_key FROM (SELECT task_key FROM step UNION SELECT task_key FROM payload) AS belonging
     WHERE task_key NOT IN (SELECT key FROM task)
"""


@dataclass(frozen=True)
class Shop(Site):
    """A site whose bodies take time: there is always something open, and something that has just ended."""

    seed: int = 0

    @property
    def effects(self) -> Service:
        return Service(self.folder, self.seed)

    def settings(self) -> Settings:
        return Settings.load({"store": self.store, "in_flight": IN_FLIGHT, **self.options}, environment={})


def baskets(site: Shop) -> App:
    """Orders that ended long before what they belong to: to go on it needs them, and to undo them as well."""
    app = orders(site.effects)
    order = app.registry.workflow("order")
    counter = app.agent("counter")

    @counter.step
    async def wrap(number: int, sent_back: bool) -> None:
        await asyncio.sleep(site.effects.begin())
        if sent_back:
            raise Permanent("the customer does not want it any more")
        site.effects.add(f"basket-{number}/wrap:1")

    @app.workflow(recovery=Recovery(crashes=1000))
    async def basket(number: int, sent_back: bool) -> None:
        await start(order, number, False, id=f"order-{number}")
        await wrap(number, sent_back)

    return app


def work(site: Shop) -> None:
    """Every role, until killed. For a process of its own."""

    async def forever() -> None:
        async with Running(baskets(site).registry, site.settings()):
            await asyncio.Event().wait()

    asyncio.run(forever())


def prune(site: Shop) -> None:
    """Forget all that has ended, over and over until killed. For a process of its own."""

    async def forever() -> None:
        while True:
            with suppress(Unavailable):
                await prune_now(site)

    asyncio.run(forever())


async def prune_now(site: Shop) -> None:
    await prune_store(
        site.settings(), kept=timedelta(0), dry_run=False, reason=None, progress=lambda *_: None
    )


class Turn(NamedTuple):
    """What is bought before a kill, whether one who works is killed or one who prunes, and when."""

    sent_back: list[bool]
    victim: int
    pause_seconds: float


def plan(chance: Random) -> list[Turn]:
    return [
        Turn(
            # One of each turn at least, so that there is something to undo whatever the seed.
            [number == 0 or chance.random() < SENT_BACK_SHARE for number in range(PER_KILL)],
            chance.randrange(2),
            chance.uniform(0.5, 1.5) * EVERY_SECONDS,
        )
        for _ in range(KILLS)
    ]


@failure(
    "whatever has ended is forgotten at once",
    of=Part.DATABASE,
    seen="tasks that ended are not found any more; none that is open is missing anything",
    heals="what a task started goes after it, a few at a time, each with all that belongs to it",
    takes="`lease` + `supervisor_period` after the last death; then the next who prunes takes the rest",
    within="120s",
    invariants=(1, 2, 3, 4, 5, 7, 11, 13, 14, 15, 16),
)
async def test_when_whatever_has_ended_is_forgotten_at_once_nobody_misses_any_of_it(
    tmp_path: Path, database: Database, watch: Watch, healing: Healing
):
    site = Shop(tmp_path, database.url, SETTINGS, seed=SEED)
    turns: list[Turn] = watch.facts.planned(plan, SEED)
    doing = [work, prune]
    children = [started(target, site) for target in doing]
    kept: list[int] = []
    async with connected(baskets(site).registry, site.settings()) as client:
        try:
            for number, turn in enumerate(turns):
                await buy(client, number * PER_KILL, turn.sent_back)
                await asyncio.sleep(turn.pause_seconds)
                children[turn.victim].kill()
                children[turn.victim].join()
                kept.append(len(database.rows(KEPT)))
                assert database.rows(ORPHANED) == [], "half of a task was forgotten"
                children[turn.victim] = started(doing[turn.victim], site)
                await asyncio.to_thread(watch.look)
            with healing():
                await until_nothing_is_open(database)
        finally:
            for child in children:
                child.kill()
                child.join()
    await prune_now(site)

    sent_back = [one for turn in turns for one in turn.sent_back]
    assert site.effects.done() == expected(sent_back)
    attempts = Counter((one.key, one.number) for one in site.effects.asked())
    assert set(attempts.values()) == {1}, (
        "what a task had done was forgotten, and done again as if for the first time"
    )
    # The newest of all tasks stays: it is what numbers go on from.
    assert len(database.rows(KEPT)) <= 2
    assert max(kept) < 2 * len(sent_back), "nobody forgot anything while there was work"
    watch.facts.forgetful = True
    watch.facts.bodies = site.effects.book()
    watch.facts.model = ends_of(sent_back)
    print(
        f"kills {KILLS} · baskets {len(sent_back)} · tasks there were at most {max(kept)}"
        f" · attempts {attempts.total()}, {site.effects.interrupted()} of them interrupted"
    )


async def buy(client: Client, first: int, sent_back: list[bool]) -> None:
    for number, one in enumerate(sent_back, first):
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                await client.submit("basket", {"number": number, "sent_back": one}, id=f"basket-{number}")
                break
            except Unavailable:
                assert time.monotonic() < give_up_at
                await asyncio.sleep(0.05)


async def until_nothing_is_open(database: Database) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while (left := database.rows(OPEN)) != [(0,)]:
        assert time.monotonic() < give_up_at, left
        await asyncio.sleep(0.1)


def expected(sent_back: list[bool]) -> set[str]:
    """The keys under which something took effect: all of each order, and of some its undo."""
    done = {f"order-{number}/{key}" for number in range(len(sent_back)) for key in FORWARD}
    for number, one in enumerate(sent_back):
        done |= {f"order-{number}/{key}/undo" for key in UNDOABLE} if one else {f"basket-{number}/wrap:1"}
    return done


def ends_of(sent_back: list[bool]) -> dict[str, str]:
    ends = ["undone" if one else "processed" for one in sent_back]
    return {f"{kind}-{number}": end for number, end in enumerate(ends) for kind in ("order", "basket")}
