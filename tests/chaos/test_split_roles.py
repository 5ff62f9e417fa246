"""Schedulers, agent hosts and supervisors, two processes each, killed and restarted at random moments."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from backstay.client import Client
from backstay.domain.states import SETTLED
from backstay.errors import Unavailable
from tests.chaos.matrix import FULL, SEED, Healing, Part, Watch, failure
from tests.chaos.service import Attempt, BusySite, now_micros
from tests.chaos.trail import COMMIT_TIMES, TAKEN, WRITTEN, lay_trail, strays, trail_of
from tests.chaos.workload import effects_of, ends_of, orders, serve, started
from tests.support.databases import Database, PostgresDatabase, connect
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

ROLES = ("scheduler", "scheduler", "agents", "agents", "supervisor", "supervisor")
#: One is killed each second, for a minute; in short, a few in a row.
KILLS, EVERY_SECONDS = (60, 1.0) if FULL else (6, 0.5)
#: So many orders are placed before each kill, and so long the last of them may take.
PER_KILL = 40 if FULL else 15
PATIENCE_SECONDS = 120
REFUSED_SHARE = 0.1

#: A dead process is soon found dead, and more is recovered than a person would leave running unseen.
SETTINGS = {"heartbeat": "250ms", "lease": "2s", "supervisor_period": "100ms", "recoveries_max": "1000000"}

#: A supervisor that stands still in the middle of writing goes on well after its lease.
STALL_SECONDS = 3.0
LOOK_EVERY_SECONDS = 0.1

STEPS = """
    SELECT task.id, step.key, step.state, step.attempt, step.undo_attempt, step.ended_at
      FROM task JOIN step ON step.task_key = task.key
"""
RELIEVED = "SELECT pid FROM instance GROUP BY pid HAVING count(*) > 1"
UNDER_WAY = "SELECT id, state FROM task WHERE locked_by IS NOT NULL OR wake_at IS NOT NULL"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """PostgreSQL is a server of our own, which remembers when what was committed."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_database")
        return
    with PostgresServer(COMMIT_TIMES) as server, closing(connect(server)) as look:
        yield PostgresDatabase(server, look)


class Turn(NamedTuple):
    """The orders that are placed before a kill, and who is killed."""

    refused: list[bool]
    victim: int


def plan(chance: Random) -> list[Turn]:
    return [
        # One of each turn at least, so that there is something to undo whatever the seed.
        Turn(
            [number == 0 or chance.random() < REFUSED_SHARE for number in range(PER_KILL)],
            chance.randrange(len(ROLES)),
        )
        for _ in range(KILLS)
    ]


class Crowd:
    """The processes of a site, of whom now and then one is killed, and another comes in its place."""

    def __init__(self, site: BusySite) -> None:
        self._site = site
        self._children = [started(serve, site, role) for role in ROLES]
        #: Who was killed, and when.
        self.killed: dict[int, int] = {}

    def kill(self, place: int) -> None:
        victim = self._children[place]
        assert victim.pid is not None
        self.killed[victim.pid] = now_micros()
        _end(victim)
        self._children[place] = started(serve, self._site, ROLES[place])

    async def have_the_stalled_go_on(self) -> None:
        """Those that stand still, after a while, unless they are killed meanwhile. Until cancelled."""
        async with asyncio.TaskGroup() as group:
            seen = 0
            while True:
                stalled = self._site.stalled()
                for pid in stalled[seen:]:
                    group.create_task(self._go_on(pid))
                seen = len(stalled)
                await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _go_on(self, pid: int) -> None:
        await asyncio.sleep(STALL_SECONDS)
        if pid not in self.killed:
            os.kill(pid, signal.SIGCONT)

    def end(self) -> None:
        for child in self._children:
            _end(child)


def _end(child: BaseProcess) -> None:
    child.kill()
    child.join()


@failure(
    "schedulers, agents and supervisors are killed again and again",
    of=Part.ALL,
    seen="steps at attempt 2 and more; nothing else",
    heals="whoever is left, or comes, takes over: leases, fences and keys are all that they share",
    takes="`lease` + `supervisor_period` after the last death",
    within="120s",
    invariants=(1, 2, 3, 4, 5, 7, 13, 14, 15, 16),
)
async def test_when_schedulers_agents_and_supervisors_are_killed_again_and_again_every_effect_is_there_once(
    tmp_path: Path, database: Database, watch: Watch, healing: Healing
):
    site = BusySite(tmp_path, database.url, SETTINGS, seed=SEED)
    turns: list[Turn] = watch.facts.planned(plan, SEED)
    refused: list[bool] = []
    began = time.monotonic()
    async with orders(site.effects).client(database.url) as client:
        lay_trail(database)
        crowd = Crowd(site)
        waking = asyncio.create_task(crowd.have_the_stalled_go_on())
        try:
            for turn in turns:
                await place(client, len(refused), turn.refused)
                refused += turn.refused
                await asyncio.sleep(EVERY_SECONDS)
                crowd.kill(turn.victim)
                await asyncio.to_thread(watch.look)
            last_kill = time.monotonic()
            with healing():
                await all_ended(client, ends_of(refused))
            took = time.monotonic() - last_kill
        finally:
            waking.cancel()
            crowd.end()

    assert dict(database.rows("SELECT id, state FROM task")) == ends_of(refused), "nothing is lost"
    assert database.rows(UNDER_WAY) == [], "nothing is stuck"
    assert database.rows("SELECT * FROM agent_request WHERE claimed_by IS NULL") == []
    assert site.effects.done() == effects_of(refused), "each effect is there, and no other"
    asked = site.effects.asked()
    assert {one.key for one in asked} == effects_of(refused)
    repeated = only_after_kills(asked, crowd.killed, database)
    as_recorded(asked, database)
    interrupted = site.effects.interrupted()
    # A handful of kills may miss every body; sixty of them do not.
    assert interrupted or not FULL, "no kill met a body at work"
    watch.facts.bodies = site.effects.book()
    watch.facts.model = ends_of(refused)
    trail = trail_of(database)
    assert strays(trail) == [], "one epoch writes at a time"
    lines = Counter(what for _, what in trail)
    print(
        f"kills {KILLS}, stalls {len(site.stalled())} · orders {len(refused)}"
        f" · effects {len(site.effects.done())}"
        f" · attempts {len(asked)}, repeated {repeated}, interrupted {interrupted}"
        f" · epochs {lines[TAKEN]}, writes under them {lines[WRITTEN]}"
        f" · {last_kill - began:.0f} s, the last order ended {took:.1f} s after the last kill"
    )


@pytest.mark.parametrize(
    ("trail", "expected"),
    [
        ([(1, TAKEN), (1, WRITTEN), (2, TAKEN), (2, WRITTEN), (2, WRITTEN)], []),
        ([(1, TAKEN), (2, TAKEN), (1, WRITTEN), (2, WRITTEN)], [2]),
        ([(1, TAKEN), (2, WRITTEN), (2, TAKEN)], [1]),
        ([(1, WRITTEN)], [0]),
    ],
)
def test_a_write_under_an_epoch_that_is_over_or_has_not_begun_is_a_stray(trail, expected):
    assert strays(trail) == expected


async def place(client: Client, first: int, refused: Sequence[bool]) -> None:
    for number, one in enumerate(refused, first):
        while True:
            try:
                await client.submit("order", {"number": number, "refused": one}, id=f"order-{number}")
                break
            except Unavailable:
                continue


async def all_ended(client: Client, ends: Mapping[str, str]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        for one, end in ends.items():
            while (task := await client.task(one)).state not in SETTLED:
                await asyncio.sleep(0.05)
            assert task.state == end, task


def only_after_kills(asked: list[Attempt], killed: dict[int, int], database: Database) -> int:
    """How many attempts were repeated: none before the process of the last one was killed, or relieved."""
    relieved = {pid for [pid] in database.rows(RELIEVED)}
    attempts: defaultdict[str, list[Attempt]] = defaultdict(list)
    for one in asked:
        attempts[one.key].append(one)
    for of_one_key in attempts.values():
        for before, after in pairwise(of_one_key):
            assert before.number < after.number, f"{after} began twice"
            ended = before.pid in relieved or killed.get(before.pid, after.at + 1) <= after.at
            assert ended, f"{after} began although {before} was at work, or had ended"
    return len(asked) - len(attempts)


def as_recorded(asked: list[Attempt], database: Database) -> None:
    """No attempt began that is not recorded, and none once the step was recorded as completed."""
    last = {one.key: one for one in asked}
    for task_id, key, state, attempt, undo_attempt, ended_at in database.rows(STEPS):
        forward, undo = last.get(f"{task_id}/{key}"), last.get(f"{task_id}/{key}/undo")
        assert forward is None or forward.number <= attempt, forward
        assert undo is None or undo.number <= undo_attempt, undo
        if state == "completed" and forward is not None:
            assert forward.at <= _micros(ended_at), f"{forward} began after {ended_at}"


def _micros(at: object) -> float:
    """An instant as each database gives it."""
    return at if isinstance(at, int) else at.timestamp() * 1e6  # type: ignore[attr-defined]
