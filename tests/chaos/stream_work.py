"""What the chaos tests of streams kill: a process that reads one stream for two groups.

One group starts a task for each event, the other writes a line for each into a file, which survives whatever
happens to the process.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from backstay import App, Event
from backstay.clock import SystemClock
from backstay.runtime import Running, parse_roles
from backstay.runtime.server import serve
from backstay.settings import Settings
from tests.support.lines import whole_lines

micros = SystemClock().micros

STREAM = "events"
PARTITIONS = 4
KEYS = 50
EVERY = 10
WINDOW = 20
CONCURRENCY = 10
BAD_EVERY = 97


@dataclass(frozen=True)
class Place:
    """Where a test's store, log and lines are, and how its processes are set."""

    folder: Path
    store: str
    settings: dict[str, str] = field(default_factory=dict)
    pause_seconds: float = 0.01

    def loaded(self) -> Settings:
        streams = f"sqlite:///{self.folder / 'streams.db'}"
        options = {"store": self.store, "streams": streams, "window": WINDOW, **self.settings}
        return Settings.load(options, environment={})

    @property
    def lines(self) -> Path:
        return self.folder / "lines"

    def seen(self) -> list[tuple[str, int]]:
        """Of each line, in their order: the key and the number."""
        return [(key, number) for key, number, _ in self.noted()]

    def noted(self) -> list[tuple[str, int, int]]:
        """The same, and when: in microseconds since 1970."""
        lines = (line.split() for line in whole_lines(self.lines))
        return [(key, int(number), int(at)) for key, number, at in lines]


def reading(place: Place) -> App:
    app = App("chaos")

    @app.workflow
    async def count(number: int) -> int:
        return number

    def parse(event: Event) -> int:
        if isinstance(event.body, str):
            raise TypeError(f"{event.body} is no number")
        return int(event.body)

    async def note(event: Event) -> None:
        with place.lines.open("ab", buffering=0) as file:
            os.write(file.fileno(), f"{event.key} {number_of(event)} {micros()}\n".encode())
        await asyncio.sleep(place.pause_seconds)

    stream = app.stream(STREAM, partitions=PARTITIONS)
    tasks = stream.source(group="tasks").map(parse).start(count, id=lambda number: f"task-{number}")
    tasks.checkpoint(every=EVERY, after="1s")
    stream.source(group="lines").via(note, concurrency=CONCURRENCY).checkpoint(every=EVERY, after="1s")
    return app


def ingest(place: Place) -> None:
    """A process that reads until it is killed."""

    async def work() -> None:
        async with Running(reading(place).registry, place.loaded(), roles=parse_roles(["ingest"])):
            await asyncio.Event().wait()

    asyncio.run(work())


def served(place: Place) -> None:
    """The same as ``backstay serve`` runs it: until it is killed, or told to stop."""
    serving = serve(
        reading(place).registry,
        place.loaded(),
        roles=parse_roles(["ingest"]),
        ready=lambda _: None,
        running_with=lambda _: nullcontext(),
    )
    asyncio.run(serving)


def number_of(event: Event) -> int:
    return int(str(event.body).removeprefix("bad-"))


def event(number: int) -> Event:
    body = f"bad-{number}" if is_bad(number) else number
    return Event(body=body, key=f"key-{number % KEYS}")


def is_bad(number: int) -> bool:
    return number % BAD_EVERY == 0


def in_order_of_keys(seen: Iterable[tuple[str, int]]) -> bool:
    """Whether the events of each key were first seen in the order in which they were sent."""
    first: dict[str, list[int]] = defaultdict(list)
    for key, number in dict.fromkeys(seen):
        first[key].append(number)
    return all(numbers == sorted(numbers) for numbers in first.values())


def repeated(seen: Iterable[tuple[str, int]]) -> int:
    """How many lines tell of an event that another tells of already."""
    counted = Counter(seen)
    return counted.total() - len(counted)
