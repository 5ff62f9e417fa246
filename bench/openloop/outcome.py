"""What became of the requests of a load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Self

from bench.openloop.histogram import Histogram


class Fate(IntEnum):
    """Of one request. Only what was answered with the status that was hoped for is accepted."""

    UNDER_WAY = 0
    ACCEPTED = 1
    REFUSED = 2
    FAILED = 3
    TIMED_OUT = 4


@dataclass(slots=True)
class Tally:
    """Of the requests that were due in one phase, whenever they were answered.

    Latencies are those of what was answered, whatever the answer was, and of what timed out: the time it had.
    ``lateness`` is the part before the sending: no connection was free, or the generator was busy.
    """

    name: str
    begins_at: float
    seconds: float
    rate: float | None = None
    due: int = 0
    accepted: int = 0
    timed_out: int = 0
    #: By status, and by what went wrong.
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    latencies: Histogram = field(default_factory=Histogram)
    lateness: Histogram = field(default_factory=Histogram)
    #: In seconds since the load began, as ``begins_at`` is.
    last_answer_at: float = 0.0

    @property
    def not_accepted(self) -> int:
        return self.due - self.accepted

    @property
    def drain_seconds(self) -> float:
        """How long after the phase the last answer to a request of it came."""
        return max(0.0, self.last_answer_at - self.begins_at - self.seconds)

    @property
    def accepted_per_second(self) -> float:
        """Until the last answer: who is slower than asked for shows it here."""
        return self.accepted / (self.seconds + self.drain_seconds)

    def as_json(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in self.__slots__}
        return found | {"latencies": self.latencies.as_json(), "lateness": self.lateness.as_json()}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        return cls(
            **dict(found)
            | {
                "refused": Counter(found["refused"]),
                "failed": Counter(found["failed"]),
                "latencies": Histogram.from_json(found["latencies"]),
                "lateness": Histogram.from_json(found["lateness"]),
            }
        )


@dataclass(slots=True)
class Outcome:
    """``fates``: of each request by its number. Connections count whether or not anything was under way."""

    phases: list[Tally]
    fates: bytearray = field(default_factory=bytearray)
    connections_lost: int = 0
    connections_refused: int = 0

    @property
    def accepted(self) -> int:
        return sum(phase.accepted for phase in self.phases)

    @property
    def acknowledged(self) -> set[int]:
        """The numbers of the requests that were accepted."""
        return {number for number, fate in enumerate(self.fates) if fate == Fate.ACCEPTED}

    @property
    def not_accepted(self) -> int:
        return sum(phase.not_accepted for phase in self.phases)

    def phase(self, name: str) -> Tally:
        [found] = [phase for phase in self.phases if phase.name == name]
        return found

    def as_json(self) -> dict[str, Any]:
        """Without the fates, which are many."""
        return {
            "phases": [phase.as_json() for phase in self.phases],
            "connections_lost": self.connections_lost,
            "connections_refused": self.connections_refused,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any], *, fates: bytes | bytearray) -> Self:
        phases = [Tally.from_json(phase) for phase in found["phases"]]
        return cls(
            phases,
            bytearray(fates),
            connections_lost=found["connections_lost"],
            connections_refused=found["connections_refused"],
        )
