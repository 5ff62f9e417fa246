"""Everything at once: an application with orders, a queue, a stream and jobs, and what it wrote down."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from backstay import App, Event, Message
from backstay.clock import SystemClock
from backstay.runtime import Running
from backstay.settings import Settings
from tests.chaos.service import Service
from tests.chaos.workload import Effects, Site, orders
from tests.support.lines import whole_lines

STREAM, PARTITIONS, KEYS = "events", 4, 20
QUEUE = "parcels"
IN_FLIGHT = 50
CLOCK = SystemClock()


@dataclass(frozen=True)
class MixedSite(Site):
    """Whose bodies take time, and who writes down what came by a queue and by a stream as well."""

    seed: int = 0

    @property
    def effects(self) -> Service:
        return Service(self.folder, self.seed)

    @property
    def handled(self) -> Effects:
        """A line for each message that was handled."""
        return Effects(self.folder / "handled")

    @property
    def lines(self) -> Path:
        """A line for each event that was processed: its number, and when."""
        return self.folder / "lines"

    def settings(self) -> Settings:
        streams = f"sqlite:///{self.folder / 'streams.db'}"
        options = {"store": self.store, "streams": streams, "in_flight": IN_FLIGHT, **self.options}
        return Settings.load(options, environment={})

    def processed(self) -> dict[int, int]:
        """When each event was processed first, by its number."""
        first: dict[int, int] = {}
        for line in whole_lines(self.lines):
            number, at = line.split()
            first.setdefault(int(number), int(at))
        return first


def mixed(site: MixedSite) -> App:
    app = orders(site.effects)
    app.queue(QUEUE, lock="2s", max_deliveries=1000)

    @app.consumer(QUEUE, concurrency=5, prefetch=5)
    async def unpack(message: Message) -> None:
        await asyncio.sleep(0.02)
        site.handled.add(message.id)

    @app.workflow
    async def count(number: int) -> int:
        return number

    async def note(event: Event) -> None:
        with site.lines.open("ab", buffering=0) as file:
            os.write(file.fileno(), f"{event.body} {CLOCK.micros()}\n".encode())
        await asyncio.sleep(0.005)

    stream = app.stream(STREAM, partitions=PARTITIONS)
    started = stream.source(group="tasks").map(lambda event: int(event.body))
    started.start(count, id=lambda number: f"event-{number}").checkpoint(every=20, after="500ms")
    stream.source(group="lines").via(note, concurrency=5).checkpoint(every=20, after="500ms")
    return app


def work(site: MixedSite) -> None:
    """Every role of the application, until killed. For a process of its own."""

    async def forever() -> None:
        async with Running(mixed(site).registry, site.settings()):
            await asyncio.Event().wait()

    asyncio.run(forever())
