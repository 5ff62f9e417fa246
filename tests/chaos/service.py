"""A remote service as the bodies of steps see it: slow, asked again after a crash, and exact by key."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

from backstay import current_step
from backstay.store.base import Store
from tests.chaos.evidence import Body
from tests.chaos.trail import Stalls, noting_store
from tests.chaos.workload import Effects, Site, append
from tests.support.lines import whole_lines

#: How long requests take, in seconds, and how many of a hundred do. Some take longer than a heartbeat of the
#: process that waits for them, a few longer than its lease.
PACES = {(0.02, 0.2): 80, (0.2, 0.6): 15, (1.0, 3.0): 5}


@dataclass(frozen=True)
class Attempt:
    """A body that began: of which key, where, and when, in microseconds by the clock of the machine."""

    key: str
    number: int
    pid: int
    at: int


class Service(Effects):
    """Does what it is asked under a key once, however often it is asked, and remembers every request.

    What a process wrote before it was killed stays: the files are the operating system's.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder / "answered")
        self._asked = folder / "asked"
        self._done = folder / "done"
        self._seed = seed

    def begin(self) -> float:
        step = current_step()
        key, number = step.idempotency_key, step.attempt
        append(self._asked, f"{key} {number} {os.getpid()} {now_micros()}")
        return _seconds(Random(f"{self._seed} {key} {number}"))

    def add(self, key: str) -> None:
        self._done.mkdir(exist_ok=True)
        (self._done / key.replace("/", " ")).touch()
        super().add(f"{key} {current_step().attempt}")

    def asked(self) -> list[Attempt]:
        """Every attempt that began, in that order."""
        lines = [line.split() for line in whole_lines(self._asked)]
        return [Attempt(key, int(number), int(pid), int(at)) for key, number, pid, at in lines]

    def book(self) -> list[Body]:
        """All of it, as the checker reads it: what began, and which attempts had their effect."""
        began = [Body("began", one.key, one.number, "shop", one.pid, one.at) for one in self.asked()]
        answered = (line.split() for line in self.count())
        return [*began, *(Body("done", key, int(number), "shop", 0, 0) for key, number in answered)]

    def done(self) -> set[str]:
        """The keys under which something was done."""
        return {effect.name.replace(" ", "/") for effect in self._done.iterdir()}

    def interrupted(self) -> int:
        """How many attempts began and did not come to their end."""
        begun = Counter(f"{one.key} {one.number}" for one in self.asked())
        return (begun - self.count()).total()


@dataclass(frozen=True)
class BusySite(Site):
    """A site whose bodies take time, and whose supervisors leave a trail and stand still now and then."""

    seed: int = 0

    @property
    def effects(self) -> Service:
        return Service(self.folder, self.seed)

    def open_store(self) -> Store:
        return noting_store(self.store, Stalls(self._stalls, self.seed))

    def stalled(self) -> list[int]:
        """Who stood still so far."""
        return [int(pid) for pid in whole_lines(self._stalls)]

    @property
    def _stalls(self) -> Path:
        return self.folder / "stalls"


def now_micros() -> int:
    return time.time_ns() // 1000


def _seconds(chance: Random) -> float:
    [span] = chance.choices([*PACES], [*PACES.values()])
    return chance.uniform(*span)
