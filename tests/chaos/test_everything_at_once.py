"""Orders, messages, events and jobs, in processes of which one is killed each second, reconciled exactly."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from backstay import Event
from backstay.client import Client
from backstay.domain.recurrence import Moment
from backstay.domain.states import TaskState
from backstay.errors import Unavailable
from backstay.runtime import connected
from backstay.runtime.stores import StoreClock
from backstay.store.base import TaskFilter
from tests.chaos.evidence import Facts, Place
from tests.chaos.matrix import FULL, SEED, Healing, Part, Watch, failure
from tests.chaos.mixed_work import KEYS, PARTITIONS, QUEUE, STREAM, MixedSite, mixed, work
from tests.chaos.workload import effects_of, ends_of, started
from tests.support.databases import Database
from tests.support.jobs import Calendar
from tests.support.service import http_service, says

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

PROCESSES = 3
#: One is killed each second, for a minute; in short, a few in a row.
KILLS, EVERY_SECONDS = (60, 1.0) if FULL else (4, 0.7)
#: So many of each come in before each kill.
ORDERS, MESSAGES, EVENTS, JOBS = (10, 10, 40, 2) if FULL else (5, 8, 30, 3)
REFUSED_SHARE = 0.1
PATIENCE_SECONDS = 180
SETTINGS = {
    "heartbeat": "250ms",
    "lease": "2s",
    "supervisor_period": "100ms",
    "recoveries_max": "1000000",
    "outbound_allow": "loopback",
}


class Turn(NamedTuple):
    """What comes in before a kill, and who is killed."""

    refused: list[bool]
    victim: int
    pause_seconds: float


def plan(chance: Random) -> list[Turn]:
    return [
        Turn(
            # One of each turn at least, so that there is something to undo whatever the seed.
            [chance.random() < REFUSED_SHARE or number == 0 for number in range(ORDERS)],
            chance.randrange(PROCESSES),
            chance.uniform(0.5, 1.5) * EVERY_SECONDS,
        )
        for _ in range(KILLS)
    ]


@failure(
    "a process is killed every second under mixed load",
    of=Part.ALL,
    seen=(
        "steps at attempt 2 and more, messages delivered twice, events of `via` seen again; nothing "
        "is missing"
    ),
    heals="everything above, at once",
    takes="`lease` + `supervisor_period` after the last death, and what had piled up",
    within="180s",
    invariants=(1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 14, 15, 16),
)
async def test_when_a_process_is_killed_every_second_under_mixed_load_all_of_it_is_done_exactly(
    tmp_path: Path, database: Database, watch: Watch, healing: Healing
):
    site = MixedSite(tmp_path, database.url, SETTINGS, seed=SEED)
    turns: list[Turn] = watch.facts.planned(plan, SEED)
    appended: list[Place] = []
    async with (
        http_service(says(200)) as sink,
        connected(mixed(site).registry, site.settings()) as client,
    ):
        await client.exchange.declare_all()
        await client.streams.declare_all()
        calendar = Calendar(client._store)
        await calendar.open(StoreClock(client._store).now())
        children = [started(work, site) for _ in range(PROCESSES)]
        try:
            for number, turn in enumerate(turns):
                await hand_in(client, number, turn, appended)
                await schedule(calendar, number, f"{sink.url}/run")
                await asyncio.sleep(turn.pause_seconds)
                children[turn.victim].kill()
                children[turn.victim].join()
                children[turn.victim] = started(work, site)
                await asyncio.to_thread(watch.look)
            with healing():
                await until_all_is_done(client, calendar, site)
        finally:
            for child in children:
                child.kill()
                child.join()
        readable = await everything(client)
        tasks = await calendar.tasks()

    refused = [one for turn in turns for one in turn.refused]
    facts = watch.facts
    reconciled(site, database, refused)
    jobs, keys = sink.headers("x-ms-scheduler-jobid"), sink.headers("Idempotency-Key")
    assert {*zip(jobs, keys, strict=True)} == {(task.attributes["job"], task.id) for task in tasks}
    assert Counter(task.attributes["job"] for task in tasks) == {
        f"j{number}": 1 for number in range(JOBS * KILLS)
    }
    facts.fired = [(str(job), "once", str(key)) for job, key in zip(jobs, keys, strict=True)]
    facts.appended, facts.readable = appended, readable
    tell_of_events(facts, site, readable)
    asked = site.effects.asked()
    facts.bodies = site.effects.book()
    facts.model = ends_of(refused) | {f"event-{place.body}": "processed" for place in readable}
    print(
        f"kills {KILLS} · orders {len(refused)} · messages {MESSAGES * KILLS} · events {len(readable)}"
        f" · jobs {len(tasks)} · attempts {len(asked)}, {site.effects.interrupted()} of them interrupted"
        f" · requests of jobs {len(jobs)} · messages handled {site.handled.count().total()} times"
    )


# What comes in


async def hand_in(client: Client, turn_number: int, turn: Turn, appended: list[Place]) -> None:
    for place, refused in enumerate(turn.refused):
        number = turn_number * ORDERS + place
        order = {"number": number, "refused": refused}
        await until_taken(lambda order=order, one=f"order-{number}": client.submit("order", order, id=one))
    for number in range(turn_number * MESSAGES, (turn_number + 1) * MESSAGES):
        await until_taken(lambda number=number: client.queue(QUEUE).send(number, id=f"m{number}"))
    first = turn_number * EVENTS
    events = [
        Event(body=number, key=f"key-{number % KEYS}", id=f"e{number}")
        for number in range(first, first + EVENTS)
    ]
    places = await until_taken(lambda: client.stream(STREAM).append_all(events))
    appended += [
        Place(place.partition, place.offset, event.body) for place, event in zip(places, events, strict=True)
    ]


async def schedule(calendar: Calendar, turn_number: int, uri: str) -> None:
    now = StoreClock(calendar.store).now()
    for number in range(turn_number * JOBS, (turn_number + 1) * JOBS):
        await until_taken(lambda number=number: put_job(calendar, f"j{number}", uri, now))


async def put_job(calendar: Calendar, name: str, uri: str, now: datetime) -> Any:
    action = {"type": "Http", "request": {"uri": uri, "method": "POST"}}
    start = Moment(now + timedelta(seconds=1)).text
    return await calendar.put(name, {"startTime": start, "action": action}, now=now)


async def until_taken(hand_in: Any) -> Any:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await hand_in()
        except Unavailable:
            assert time.monotonic() < give_up_at
            await asyncio.sleep(0.05)


# How it ends


async def until_all_is_done(client: Client, calendar: Calendar, site: MixedSite) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while (left := await still_open(client, site)) != {}:
        assert time.monotonic() < give_up_at, left
        await asyncio.sleep(0.2)


async def still_open(client: Client, site: MixedSite) -> dict[str, int]:
    view = await client.mailroom.queue(QUEUE)
    standings = await client._store.groups.standings(STREAM)
    passed = sum(one.checkpoint or 0 for one in standings)
    backlog = await client._store.backlog(at_most=10_000)
    tasks = [
        *await client._store.tasks(_filter("processing")),
        *await client._store.tasks(_filter("undoing")),
    ]
    waiting = await client._store.tasks(_filter("waiting"))
    jobs = KILLS * JOBS - len(await client._store.tasks(_filter("processed", workflow="backstay.job")))
    left = {
        "messages": view.ready + view.scheduled + view.locked + view.dead,
        "events": 2 * KILLS * EVENTS - passed,
        "tasks": backlog + len(tasks) + len(waiting),
        "jobs": jobs,
    }
    return {what: number for what, number in left.items() if number}


def _filter(state: str, **more: Any) -> TaskFilter:
    return TaskFilter(states=(TaskState(state),), limit=1_000, **more)


async def everything(client: Client) -> list[Place]:
    found: list[Place] = []
    for partition in range(PARTITIONS):
        start = 0
        while events := await client.stream(STREAM).read(partition, start=start, limit=10_000):
            found += [Place(one.partition, one.offset, one.body) for one in events]
            start = events[-1].offset + 1
    return found


def reconciled(site: MixedSite, database: Database, refused: list[bool]) -> None:
    """What took effect is exactly what was asked for, whatever was asked for how often."""
    assert site.effects.done() == effects_of(refused)
    assert set(site.handled.count()) == {f"m{number}" for number in range(KILLS * MESSAGES)}
    assert set(site.processed()) == set(range(KILLS * EVENTS))
    ids = {one for (one,) in database.rows("SELECT id FROM task WHERE id LIKE ?", "event-%")}
    assert ids == {f"event-{number}" for number in range(KILLS * EVENTS)}


def tell_of_events(facts: Facts, site: MixedSite, readable: list[Place]) -> None:
    processed = site.processed()
    for place in readable:
        unit = facts.handled.setdefault(f"{STREAM}/lines/{place.partition}", {})
        unit[place.offset] = processed[place.body]
        facts.first_kept.setdefault(f"{STREAM}/{place.partition}", place.offset)
