"""What a generator is asked for: phases of a load, and when each request of them is due."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: Stands in a request for its number, which has as many digits; anywhere, and as often as need be.
DIGITS: Final = 9
MARK: Final = "#" * DIGITS

#: A request that has no answer so long after it was due has timed out.
TIMEOUT_SECONDS: Final = 30.0
CONNECTIONS: Final = 256

_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Phase:
    """So many requests a second for so long. Without a rate each connection asks as soon as it was answered.

    That shows what a server can do at the most. Its latencies count from the sending, and a stall delays what
    would have come after it: for latencies under a load that does not wait, give a rate.
    """

    name: str
    seconds: float
    rate: float | None = None

    @property
    def requests(self) -> int | None:
        return None if self.rate is None else round(self.rate * self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Which requests go where, and when. ``request`` is all of its text, with MARK for its number."""

    host: str
    port: int
    request: str
    phases: Sequence[Phase]
    connections: int = CONNECTIONS
    #: Requests on a connection that wait for their answers at the same time; 1: no pipelining.
    depth: int = 1
    timeout: float = TIMEOUT_SECONDS
    #: The status of an answer that counts as accepted.
    accepts: int = 202

    @property
    def seconds_max(self) -> float:
        """Once the plan is over, answers have their time, and so have requests that are late already."""
        return sum(phase.seconds for phase in self.phases) + 2 * self.timeout


def request_text(
    path: str,
    body: str,
    *,
    host: str,
    method: str = "POST",
    content_type: str = _JSON,
    headers: Mapping[str, str] | None = None,
) -> str:
    """The text of a request, ASCII throughout. A number is as long as its MARK, so the lengths are right."""
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {host}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    return "\r\n".join([*lines, "", body])


class Schedule:
    """Says which request is due next, one phase after the other."""

    def __init__(self, phases: Sequence[Phase], *, begin: float) -> None:
        self._phases = phases
        #: Of the request that was taken last, and of the next: its number, and when it is due.
        self.phase = -1
        self.next_at = begin
        self._begin = self._end = begin
        self._rate: float | None = 1.0
        self._taken = self._total = 0
        self._next_phase()

    @property
    def is_over(self) -> bool:
        return self.next_at == math.inf

    def take(self, now: float) -> float | None:
        """When the next request was due; None while none is."""
        while now >= self.next_at:
            if self._rate is None:
                if now < self._end:
                    return now
            elif self._taken < self._total:
                due = self.next_at
                self._taken += 1
                self.next_at = (
                    self._begin + self._taken / self._rate if self._taken < self._total else self._end
                )
                return due
            self._next_phase()
        return None

    def take_missed(self, before: float) -> Iterator[float]:
        """Those that were due before that instant, and were not taken."""
        while self.next_at < before:
            if self._rate is None and before < self._end:
                return
            due = self.take(before)
            if due is None:
                return
            if self._rate is not None:
                yield due

    def _next_phase(self) -> None:
        self.phase += 1
        if self.phase == len(self._phases):
            self.next_at = math.inf
            return
        phase = self._phases[self.phase]
        self.next_at = self._begin = self._end
        self._end = self._begin + phase.seconds
        self._rate, self._taken, self._total = phase.rate, 0, phase.requests or 0
