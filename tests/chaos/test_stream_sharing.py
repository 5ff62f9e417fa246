"""Three processes share a stream: they come, are stopped and killed under load, and no task starts twice."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import pytest

from backstay.client import Client
from backstay.domain.stream import GroupStanding
from backstay.runtime import connected
from tests.chaos.evidence import Facts
from tests.chaos.matrix import FULL, SEED, checked
from tests.chaos.stream_work import EVERY, PARTITIONS, STREAM, WINDOW, Place, event, reading, repeated, served
from tests.chaos.workload import started
from tests.support.databases import Database

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

CHANGES = 20 if FULL else 6
MEMBERS = 3
#: Appended at a time, while members come and go.
LOAD = 40
PATIENCE_SECONDS = 60
#: As many looks of every member as these take.
QUIET_SECONDS = 3


class Members:
    """The processes that read: some of those that end are stopped, the others are killed."""

    def __init__(self, place: Place, chance: Random) -> None:
        self._place = place
        self._chance = chance
        self._running = [started(served, place) for _ in range(MEMBERS)]
        self.killed = 0

    def replace_one(self) -> None:
        child = self._running.pop(self._chance.randrange(len(self._running)))
        if self._chance.random() < 0.5:
            self._stop(child)
        else:
            child.kill()
            child.join()
            self.killed += 1
        if len(self._running) == 1 or self._chance.random() < 0.5:  # Else there is one less for a while.
            self.complete()

    def complete(self) -> None:
        while len(self._running) < MEMBERS:
            self._running.append(started(served, self._place))

    def share(self, found: list[GroupStanding], pids: Mapping[str, int]) -> bool:
        """Whether those that run, and they alone, have as many units of each group, or one more."""
        ours = {child.pid for child in self._running}
        loads = Counter((one.group, pids.get(one.holder or "")) for one in found)
        evenly = max(loads.values()) - min(loads.values()) <= 1
        return evenly and set(loads) == {(one.group, pid) for one in found for pid in ours}

    def stop(self) -> None:
        for child in self._running:
            self._stop(child)

    @staticmethod
    def _stop(child: BaseProcess) -> None:
        child.terminate()
        child.join()
        assert child.exitcode in (0, -signal.SIGTERM)  # The latter before it knew what that means.


async def test_members_that_come_and_go_start_each_task_once_and_then_nothing_moves(
    tmp_path: Path, database: Database
):
    print(f"seed {SEED} (again with BACKSTAY_TEST_SEED={SEED})")
    chance = Random(SEED)
    # Nobody runs the tasks: as many wait as there are events.
    settings = {**database.heir(), "max_pending": "1000000"}
    place = Place(tmp_path, database.url, settings, pause_seconds=0.001)
    appended = 0
    async with connected(reading(place).registry, place.loaded()) as client:
        await client.streams.declare_all()
        members = Members(place, chance)
        try:
            for _ in range(CHANGES):
                for _ in range(chance.randrange(5, 20)):
                    new = [event(number) for number in range(appended, appended + LOAD)]
                    await client.stream(STREAM).append_all(new)
                    appended += LOAD
                    await asyncio.sleep(0.02)
                await asyncio.to_thread(members.replace_one)
            members.complete()
            await until(client, members.share, "everybody has its share")
            settled = [(one.unit, one.holder, one.epoch) for one in await standings(client)]
            await asyncio.sleep(QUIET_SECONDS)
            assert [(one.unit, one.holder, one.epoch) for one in await standings(client)] == settled

            await until(client, lambda found, _: passed(found) == 2 * appended, "all of it is read")
        finally:
            await asyncio.to_thread(members.stop)
        aside = await client._store.groups.quarantine(STREAM, limit=appended)

    seen = place.seen()
    assert {number for _, number in seen} == set(range(appended))
    assert repeated(seen) <= members.killed * PARTITIONS * (EVERY + WINDOW)
    ids = sorted(name for (name,) in database.rows("SELECT id FROM task"))
    bad = {one.event.body.decode().strip('"').removeprefix("bad-") for one in aside}
    assert ids == sorted(f"task-{number}" for number in range(appended) if str(number) not in bad)
    checked(database, Facts(open=set(ids)), claimed=(14,), with_history=False)
    print(f"{appended} events, {members.killed} of {CHANGES} killed, {repeated(seen)} repeated by via")


async def standings(client: Client) -> list[GroupStanding]:
    return await client._store.groups.standings(STREAM)


def passed(found: list[GroupStanding]) -> int:
    return sum(one.checkpoint or 0 for one in found)


async def until(
    client: Client, holds: Callable[[list[GroupStanding], Mapping[str, int]], bool], what: str
) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        pids = {one.id: one.pid for one in await client._store.instances()}
        if holds(found := await standings(client), pids):
            return
        assert time.monotonic() < give_up_at, (what, found)
        await asyncio.sleep(0.05)
