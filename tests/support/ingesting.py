"""The role ``ingest`` of a process, stepped by hand, and streams to read with it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from backstay import App, Event
from backstay.client import Client
from backstay.clock import Clock, SystemClock
from backstay.domain.lease import Owner
from backstay.domain.ownership import Ownership
from backstay.domain.stream import Group, Holding, Quarantined
from backstay.ingest.role import Ingest
from backstay.ingest.streams.pipeline import Pipeline
from backstay.messaging.stream import Log
from backstay.settings import Settings
from backstay.store.base import NewInstance, Store, TaskFilter

_numbers = itertools.count(1)

STREAM = "numbers"
DAY = timedelta(days=1)


def at(folder: Path) -> dict[str, Any]:
    """The setting by which an application keeps its streams in this folder."""
    return {"streams": f"sqlite:///{folder / 'streams.db'}"}


def events(bodies: Iterable[Any], *, keys: int | None = None) -> list[Event]:
    """An event for each body; with ``keys``, each belongs to one of so many by turns."""
    return [
        Event(body=body, key=None if keys is None else f"key-{number % keys}")
        for number, body in enumerate(bodies)
    ]


@dataclass(frozen=True)
class Process:
    """One process that reads streams: registered, and moved by nobody but the test."""

    store: Store
    client: Client
    owner: Owner
    ingest: Ingest

    @property
    def pipeline(self) -> Pipeline:
        [pipeline] = self.ingest.pipelines
        return pipeline

    async def run_once(self) -> int:
        return await self.ingest.run_once()

    async def run_dry(self) -> int:
        """Until nothing is left to read; how many events that were."""
        total = 0
        while handled := await self.run_once():
            total += handled
        return total

    async def take_away(self, *partitions: int, group: str = "g") -> list[Holding]:
        """Take units, whoever holds them, as a member does whose patience ended."""
        seen = await self.ownership(group)
        wanted = [one for one in seen.units if one.partition in partitions]
        log = await self.client.streams.log.identity(STREAM)
        return await self.store.groups.take(wanted, log=log, owner=self.owner, now=self.client._clock.now())

    async def ownership(self, group: str = "g") -> Ownership:
        """Who reads for a group, and holds what."""
        log = await self.client.streams.log.identity(STREAM)
        return await self.store.groups.ownership(
            Group(STREAM, group), log=log, owner=self.owner, lease=DAY, now=self.client._clock.now()
        )

    async def append(self, bodies: Iterable[Any], *, keys: int | None = None) -> None:
        await self.client.stream(STREAM).append_all(events(bodies, keys=keys))


@asynccontextmanager
async def process(
    app: App,
    store: Store,
    folder: Path,
    *,
    clock: Clock | None = None,
    log: Log | None = None,
    quarantine_max: int | None = None,
    **options: Any,
) -> AsyncIterator[Process]:
    """``quarantine_max`` may be less than a setting, for tests that fill it with a few events."""
    settings = Settings.load({**at(folder), **options}, environment={})
    if quarantine_max is not None:
        settings = dataclasses.replace(settings, quarantine_max=quarantine_max)
    clock = clock or SystemClock()
    await store.open()
    client = Client(store, app.registry, settings=settings, clock=clock, log=log)
    await client.open()
    await client.streams.declare_all()
    instance = NewInstance(id=f"reader-{next(_numbers)}", host="here", pid=1, roles=("ingest",))
    owner = await store.register(instance, now=clock.now())
    ingest = Ingest(
        app.registry,
        client.exchange,
        client.streams,
        owner=owner,
        store=store,
        settings=settings,
        clock=clock,
        random=Random(7),
    )
    try:
        yield Process(store, client, owner, ingest)
    finally:
        await client.close()
        await store.close()


async def checkpoints(store: Store, group: str = "g", *, stream: str = STREAM) -> dict[int, int | None]:
    """How far a group has got, by partition."""
    return {
        one.partition: one.checkpoint
        for one in await store.groups.standings(stream)
        if one.group.name == group
    }


async def passed(store: Store, group: str = "g", *, stream: str = STREAM) -> int:
    """How many events a group has passed."""
    return sum([one or 0 for one in (await checkpoints(store, group, stream=stream)).values()])


async def quarantined(store: Store, *, stream: str = STREAM) -> list[Quarantined]:
    return await store.groups.quarantine(stream, limit=1000)


async def task_ids(store: Store) -> Sequence[str]:
    return sorted(task.id for task in await store.tasks(TaskFilter(limit=1000)))
