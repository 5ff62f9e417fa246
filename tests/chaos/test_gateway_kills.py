"""A gateway that is killed under load: whatever it accepted is there, once, and in order per key."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from backstay import App, Producer
from tests.chaos.evidence import Place
from tests.chaos.matrix import FULL, SEED, Healing, Part, Watch, failure
from tests.support.databases import Database
from tests.support.ports import HOST, free_ports

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

KILLS = 10 if FULL else 2
#: Seconds from the moment when a gateway answers to its end.
LIFE = (0.2, 0.8)

PARTITIONS = 4
#: Keys of those who send each event in a request of its own, and keys of a producer.
SINGLES = [f"single-{number}" for number in range(8)]
BATCHED = [f"batched-{number}" for number in range(40)]


def streams_in(folder: Path) -> str:
    return f"sqlite:///{folder / 'streams.db'}"


class Gateway:
    """``backstay serve`` as a process that dies and is started again."""

    def __init__(self, folder: Path, store: str, *, fast_lane: bool) -> None:
        [self._port] = free_ports(1)
        variables = {"BACKSTAY_FAST_LANE": str(fast_lane), "BACKSTAY_STREAMS": streams_in(folder)}
        self._environment = {**os.environ, **variables}
        self._store = store
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "backstay", "serve", "--roles", "api", "--port", str(self._port)),
            *("--store", self._store),
            cwd=self._folder,
            env=self._environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )

    async def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()


async def post_until_accepted(
    session: aiohttp.ClientSession, url: str, body: Any, *, key: str, id: str
) -> Place:
    """Send one event, as often as it takes, under one id; where it is said to be."""
    while True:
        try:
            async with session.post(
                f"{url}/v1/streams/orders/events", json=body, params={"key": key, "id": id}
            ) as answer:
                assert answer.status in (202, 503), await answer.text()
                if answer.status == 202:
                    said = await answer.json()
                    return Place(said["partition"], said["offset"], body)
        except (aiohttp.ClientError, TimeoutError):
            pass
        await asyncio.sleep(0.05)


class Load:
    """Numbers, counted up per key; ``accepted`` says how far each of them got."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._over = False
        self.accepted: dict[str, int] = {}
        #: Where each event is that had a request of its own.
        self.places: list[Place] = []

    def end(self) -> None:
        self._over = True

    async def run(self) -> None:
        async with aiohttp.ClientSession() as session, Producer(self._url, stream="orders") as producer:

            async def by_request(key: str, number: int) -> None:
                place = await post_until_accepted(session, self._url, number, key=key, id=f"{key}-{number}")
                self.places.append(place)

            async def by_producer(key: str, number: int) -> None:
                await producer.send(number, key=key)

            async with asyncio.TaskGroup() as group:
                for key in SINGLES:
                    group.create_task(self._count(key, by_request))
                for key in BATCHED:
                    group.create_task(self._count(key, by_producer))

    async def _count(self, key: str, send: Any) -> None:
        for number in itertools.count():
            if self._over:
                return
            await send(key, number)
            self.accepted[key] = number + 1


def plan(chance: Random) -> list[float]:
    """How long each gateway lives once it is at work."""
    return [chance.uniform(*LIFE) for _ in range(KILLS)]


async def made(url: str) -> None:
    """A stream, once the gateway answers."""
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.put(f"{url}/v1/streams/orders", json={"partitions": PARTITIONS}) as answer:
                    assert answer.status in (200, 201)
                    return
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)


async def found(folder: Path, store: str) -> list[Any]:
    """What is in the stream, in the order of the offsets."""
    found: list[Any] = []
    async with App("reader").client(store=store, streams=streams_in(folder)) as client:
        for partition in range(PARTITIONS):
            start = 0
            while events := await client.stream("orders").read(partition, start=start, limit=10_000):
                found += events
                start = events[-1].offset + 1
    return found


@failure(
    "the gateway is killed",
    of=Part.DOORS,
    seen="connections break; who has no 202 sends again, under the same id",
    heals="the platform starts it again; what was accepted was on the disk before the 202",
    takes="the start of a process",
    within="60s",
    invariants=(9, 14, 15),
)
@pytest.mark.parametrize("fast_lane", [True, False])
async def test_when_the_gateway_is_killed_what_it_accepted_is_there_once_and_in_order(
    tmp_path: Path, database: Database, fast_lane: bool, watch: Watch, healing: Healing
):
    """EH, IR: durable before the 202, and a repetition under the same id adds nothing."""
    lives: list[float] = watch.facts.planned(plan, SEED)
    gateway = Gateway(tmp_path, database.url, fast_lane=fast_lane)
    await gateway.start()
    await made(gateway.url)
    load = Load(gateway.url)
    running = asyncio.create_task(load.run())

    for life_seconds in lives:
        before = sum(load.accepted.values())
        while sum(load.accepted.values()) < before + 200:  # It is at work.
            assert not running.done(), running.result()
            await asyncio.sleep(0.01)
        await asyncio.sleep(life_seconds)
        with healing():
            await gateway.kill()
            await gateway.start()
            await made(gateway.url)
    load.end()
    await running
    await gateway.kill()

    events = await found(tmp_path, database.url)
    watch.facts.appended = load.places
    watch.facts.readable = [Place(one.partition, one.offset, one.body) for one in events]
    bodies: dict[str, list[int]] = defaultdict(list)
    for one in events:
        bodies[str(one.key)].append(one.body)
    assert {key: numbers for key, numbers in bodies.items() if numbers != [*range(load.accepted[key])]} == {}
    assert bodies.keys() == {*SINGLES, *BATCHED}
    print(f"{sum(load.accepted.values()):,} events accepted over {KILLS} kills")
