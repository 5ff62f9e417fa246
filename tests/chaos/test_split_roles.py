"""Schedulers, agent hosts and supervisors, two processes each, killed and restarted at random moments."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from pathlib import Path
from random import Random, SystemRandom

import pytest

from backstay.client import Client
from backstay.domain.states import SETTLED
from backstay.errors import Unavailable
from tests.chaos.workload import FORWARD, UNDOABLE, Site, orders, serve, started
from tests.support.databases import Database

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

FULL = os.environ.get("BACKSTAY_TEST_CHAOS") == "full"
SEED = int(os.environ.get("BACKSTAY_TEST_SEED") or SystemRandom().randrange(10**6))

ROLES = ("scheduler", "scheduler", "agents", "agents", "supervisor", "supervisor")
#: One is killed each second, for a minute; in short, a few in a row.
KILLS, EVERY_SECONDS = (60, 1.0) if FULL else (6, 0.5)
#: So many orders are placed before each kill, and so long the last of them may take.
PER_KILL = 40 if FULL else 15
PATIENCE_SECONDS = 90
REFUSED_SHARE = 0.1

STEPS = """
    SELECT task.id, step.key, step.attempt, step.undo_attempt
      FROM task JOIN step ON step.task_key = task.key
"""


async def test_orders_whose_schedulers_and_agents_are_killed_at_random_all_end_with_every_effect(
    tmp_path: Path, database: Database
):
    print(f"seed {SEED} (again with BACKSTAY_TEST_SEED={SEED})")
    chance = Random(SEED)
    site = Site(tmp_path, database.url, database.heir(lease="2s"))
    children = [started(serve, site, role) for role in ROLES]
    refused: dict[str, bool] = {}
    began = time.monotonic()
    try:
        async with orders(site.effects).client(database.url) as client:
            for _ in range(KILLS):
                await place(client, refused, chance)
                await asyncio.sleep(EVERY_SECONDS)
                victim = chance.randrange(len(ROLES))
                children[victim].kill()
                children[victim].join()
                children[victim] = started(serve, site, ROLES[victim])
            await all_ended(client, refused)
    finally:
        for child in children:
            child.kill()
            child.join()

    states: dict[str, str] = dict(database.rows("SELECT id, state FROM task"))
    assert states == {one: "undone" if is_refused else "processed" for one, is_refused in refused.items()}
    effects = site.effects.count()
    assert set(effects) == expected(refused)
    repeated = no_more_than_attempted(effects, database)
    assert database.rows("SELECT * FROM agent_request WHERE claimed_by IS NULL") == []
    print(
        f"kills {KILLS} · orders {len(states)} · effects {effects.total()}, repeated {repeated}"
        f" · {time.monotonic() - began:.0f} s"
    )


async def place(client: Client, refused: dict[str, bool], chance: Random) -> None:
    for _ in range(PER_KILL):
        number = len(refused)
        is_refused = chance.random() < REFUSED_SHARE
        order = {"number": number, "refused": is_refused}
        refused[f"order-{number}"] = is_refused
        while True:
            try:
                await client.submit("order", order, id=f"order-{number}")
                break
            except Unavailable:
                continue


async def all_ended(client: Client, refused: dict[str, bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        for one in refused:
            while (task := await client.task(one)).state not in SETTLED:
                await asyncio.sleep(0.05)
            assert task.state in ("processed", "undone"), task


def expected(refused: dict[str, bool]) -> set[str]:
    back = [*UNDOABLE, *(f"{key}/undo" for key in UNDOABLE)]
    return {
        f"{one}/{key}" for one, is_refused in refused.items() for key in (back if is_refused else FORWARD)
    }


def no_more_than_attempted(effects: Counter[str], database: Database) -> int:
    """How many effects were repeated; none of them more often than attempts were recorded."""
    for task_id, key, attempt, undo_attempt in database.rows(STEPS):
        assert effects[f"{task_id}/{key}"] <= attempt, f"{task_id}/{key}"
        assert effects[f"{task_id}/{key}/undo"] <= undo_attempt, f"{task_id}/{key}/undo"
    return effects.total() - len(effects)
