"""Events that wait in a stream, read through two plain stages into tasks, messages, calls and batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from backstay import App, Checkpoint, Event
from backstay.runtime import Running, connected, parse_roles
from backstay.settings import Settings
from bench.databases import Database
from bench.load import in_fresh_loop
from bench.options import Options
from bench.progress import say

STREAM: Final = "events"
GROUP: Final = "bench"
KEYS: Final = 1_000
APPENDED_AT_ONCE: Final = 10_000
EVENTS: Final = 100_000
SHORT_EVENTS: Final = 200
_LOOK_SECONDS: Final = 0.02


class Load(NamedTuple):
    sink: str
    partitions: int
    # Whether a scheduler in the same process runs what is started.
    scheduled: bool = False


LOADS: Final = (
    Load("start", 32),
    Load("start", 4),
    Load("start", 32, scheduled=True),
    Load("send", 32),
    Load("via", 32),
    Load("batch", 32),
)


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Until the group has passed everything, and its tasks, where somebody runs them, have ended."""

    store: str
    sink: str
    roles: str
    partitions: int
    events: int
    events_per_second: float


def measure(database: Database, options: Options) -> Iterator[Rate]:
    events = SHORT_EVENTS if options.short else EVENTS
    for load in LOADS:
        roles = ["ingest", "scheduler"] if load.scheduled else ["ingest"]
        say(f"    {load.sink}, {load.partitions} partitions, as {' and '.join(roles)}")
        url = database.new_store()
        streams = f"sqlite:///{database.folder / f'{load.sink}-{load.partitions}-{load.scheduled}.db'}"
        # Nobody takes the tasks up where there is no scheduler: they may wait, all of them.
        options_of = {"store": url, "streams": streams, "max_pending": 10_000 if load.scheduled else 10**9}
        settings = Settings.load(options_of, environment={})
        seconds = in_fresh_loop(_passed(load, settings, roles, events))
        yield Rate(
            store=database.name,
            sink=load.sink,
            roles=" and ".join(roles),
            partitions=load.partitions,
            events=events,
            events_per_second=round(events / seconds, 1),
        )


async def _passed(load: Load, settings: Settings, roles: list[str], events: int) -> float:
    app = _app(load)
    async with connected(app.registry, settings) as client:
        await client.streams.declare_all()
        for begin in range(0, events, APPENDED_AT_ONCE):
            lot = range(begin, min(begin + APPENDED_AT_ONCE, events))
            await client.stream(STREAM).append_all([Event(body=n, key=f"c{n % KEYS}") for n in lot])
        begun = time.perf_counter()
        async with Running(app.registry, settings, roles=parse_roles(roles)):
            while await _left(client, load, events):  # noqa: ASYNC110  Nobody calls for that.
                await asyncio.sleep(_LOOK_SECONDS)
            return time.perf_counter() - begun


async def _left(client: Any, load: Load, events: int) -> bool:
    """Whether there is something to pass, or a task to run."""
    standings = await client._store.groups.standings(STREAM)  # noqa: SLF001  What nobody else needs to know.
    if sum(one.checkpoint or 0 for one in standings) < events:
        return True
    return load.scheduled and await client.backlog(at_most=1) > 0


def _app(load: Load) -> App:
    app = App("bench")

    @app.workflow
    async def trivial(number: int) -> int:
        return number

    async def nothing(_number: int) -> None: ...

    async def all_of_it(_events: list[Event], checkpoint: Checkpoint) -> None:
        await checkpoint()

    stream = app.stream(STREAM, partitions=load.partitions)
    if load.sink == "batch":
        app.batch(stream, group=GROUP)(all_of_it)
        return app
    stages = stream.source(group=GROUP).map(lambda event: event.body).filter(lambda number: number >= 0)
    if load.sink == "start":
        stages.start(trivial, id=lambda number: f"task-{number}")
    elif load.sink == "send":
        stages.send(app.queue("bench"))
    else:
        stages.via(nothing).checkpoint(every=1_000, after="1s")
    return app
