"""Producers of one log that are killed whenever chance wants it: nothing acknowledged is lost or moved."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import pytest

from backstay.clock import SystemClock
from backstay.domain.stream import Appended, EventRecord, NewEvent, Stream
from backstay.messaging.embedded import EmbeddedLog
from tests.chaos.matrix import FULL, SEED
from tests.chaos.workload import Effects, started
from tests.support.lines import whole_lines

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

ROUNDS = 10 if FULL else 1

PRODUCERS = 3
KEYS = 10
KILLS = 10
#: Seconds from one kill to the next.
LIFE = (0.2, 0.8)
CLOCK = SystemClock()
RIDES = Stream(name="rides", partitions=4)


def produce(url: str, producer: int, path: Path) -> None:
    """Append 0, 1, 2, … to each key of this producer, and write down what was acknowledged.

    What its forerunner was killed over is tried again, with the same id.
    """

    async def work() -> None:
        log = EmbeddedLog(url)
        await log.open()
        await log.declare(RIDES, now=CLOCK.now())
        done = acknowledged(path)
        await asyncio.gather(*(line(log, f"p{producer}-k{key}", done) for key in range(KEYS)))

    async def line(log: EmbeddedLog, key: str, done: dict[str, list[tuple[int, int]]]) -> None:
        number = len(done[key])
        while True:
            event = NewEvent(body=b"%d" % number, key=key, id=f"{key}-{number}")
            [placed] = await log.append("rides", [event], now=CLOCK.now())
            assert isinstance(placed, Appended)
            Effects(path).add(f"{key} {placed.partition} {placed.offset}")
            number += 1

    asyncio.run(work())


def acknowledged(path: Path) -> dict[str, list[tuple[int, int]]]:
    """Of each key the places of its events, in the order in which they were acknowledged."""
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for written in whole_lines(path):
        key, partition, offset = written.split()
        places[key].append((int(partition), int(offset)))
    return places


@pytest.mark.parametrize("number", range(ROUNDS))
def test_what_killed_producers_appended_is_there_once_and_in_order(tmp_path: Path, number: int):
    """EH-01, EH-02, DX-01, DX-02."""
    seed = SEED + number
    print(f"seed {seed} (again with BACKSTAY_TEST_SEED={seed})")
    chance = Random(seed)
    url, path = f"sqlite:///{tmp_path}/log.db", tmp_path / "acknowledged"

    children = [started(produce, url, producer, path) for producer in range(PRODUCERS)]
    for _ in range(KILLS):
        time.sleep(chance.uniform(*LIFE))
        victim = chance.randrange(PRODUCERS)
        _kill(children[victim])
        children[victim] = started(produce, url, victim, path)
    for child in children:
        _kill(child)

    events = asyncio.run(everything(url))
    told = acknowledged(path)
    assert len(told) > KEYS, "nobody came to append anything"
    for key, places in told.items():
        found = events[key]
        assert [int(event.body) for event in found] == [*range(len(found))], key
        assert [(event.partition, event.offset) for event in found[: len(places)]] == places, key
        # One append of a key at a time: at the most one was written and not told.
        assert len(found) - len(places) in (0, 1)


async def everything(url: str) -> dict[str, list[EventRecord]]:
    log = EmbeddedLog(url)
    await log.open(must_exist=True)
    found: dict[str, list[EventRecord]] = defaultdict(list)
    for partition in range(RIDES.partitions):
        start = 0
        while events := (
            await log.read("rides", partition, start=start, limit=1_000, bytes_max=1_000_000)
        ).events:
            start = events[-1].offset + 1
            for event in events:
                assert event.key is not None
                found[event.key].append(event)
    await log.close()
    return found


def _kill(child: BaseProcess) -> None:
    child.kill()
    child.join()
