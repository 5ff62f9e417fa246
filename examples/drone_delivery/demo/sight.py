"""What can be seen of the deliveries and the agents over HTTP."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
import msgspec

from drone_delivery.demo.load import authorization
from drone_delivery.services.books import Calls, count_calls
from drone_delivery.wishes import OPERATIONS, SCHEDULER, requests

ENDED: Final = frozenset({"processed", "undone", "error", "undo_failed", "cancelled"})
PAGE: Final = 1_000
_AT_ONCE: Final = aiohttp.ClientTimeout(total=0.5)
_NOT_LET_IN: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
#: Rates are those of the last so many seconds.
RATE_SECONDS: Final = 3.0
#: How much later than it was created a task may be committed, and so be seen.
_OVERLAP: Final = timedelta(seconds=5)


_Answer = TypeVar("_Answer")


class Out(Exception):
    """The server does not answer now."""


class NotLetIn(Exception):
    """The server wants a token that we have not."""


class _Task(msgspec.Struct, frozen=True):
    id: str
    state: str
    created_at: datetime


class _Page(msgspec.Struct, frozen=True):
    items: list[_Task]
    next: str | None


class _AgentInstance(msgspec.Struct, frozen=True):
    id: str
    in_flight: int
    breaker: str


class _Agent(msgspec.Struct, frozen=True):
    name: str
    instances: list[_AgentInstance]


class _Agents(msgspec.Struct, frozen=True):
    items: list[_Agent]


class _Partition(msgspec.Struct, frozen=True):
    partition: int
    first: int
    end: int


class _Reading(msgspec.Struct, frozen=True):
    """How far one group has got in one partition."""

    group: str
    partition: int
    lag: int


class _Stream(msgspec.Struct, frozen=True):
    partitions: list[_Partition]
    groups: list[_Reading]

    def lag(self, group: str) -> int:
        """What a group has yet to pass; a partition that was never read for it as a whole."""
        behind = {one.partition: one.lag for one in self.groups if one.group == group}
        return sum(behind.get(one.partition, one.end - one.first) for one in self.partitions)


@dataclass(frozen=True, slots=True)
class AgentSeen:
    """An agent over all processes: calls under way, and how many of its breakers are not closed."""

    in_flight: int
    breakers_open: int


class _Dial(msgspec.Struct, frozen=True):
    outage: bool
    hang: bool


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    ended: int


@dataclass(slots=True)
class Seen:
    """As of the last look."""

    states: dict[str, str] = field(default_factory=dict)
    agents: Mapping[str, AgentSeen] = field(default_factory=dict)
    #: Each is up, down, hangs, or gone.
    services: Mapping[str, str] = field(default_factory=dict)
    calls: Calls = field(default_factory=lambda: Calls(total=0, repeated=0))
    #: How many requests wait to be taken up,
    lag: int = 0
    #: and how many that another group has yet to pass: what it did last is told a second later.
    changes_lag: int = 0

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.states.values())

    @property
    def ended(self) -> int:
        return sum(state in ENDED for state in self.states.values())

    @property
    def in_flight(self) -> int:
        return len(self.states) - self.ended


class Sight:
    """Looks at a server now and then. What ended is not looked at again, until it starts over."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        services: Mapping[str, str],
        *,
        folder: Path,
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._url = url
        self._services = services
        self._folder = folder
        self._clock = clock
        self._began: datetime | None = None
        self._from: datetime | None = None
        self._samples: deque[_Sample] = deque()
        self.seen = Seen()

    async def begin(self) -> None:
        """Deliveries that are in the store already are none of this run. Raises Out, NotLetIn."""
        page = await self._get("/v1/tasks", _Page, workflow="deliver", limit=PAGE)
        # The newest come first, but those that were committed together in any order.
        self._began = max((task.created_at for task in page.items), default=None)
        self._from = self._began

    def start_over(self) -> None:
        """Look at everything again, from the beginning of this run."""
        self._from = self._began

    async def look(self) -> None:
        """Bring everything up to date. Raises Out, and keeps what was seen before."""
        self.seen.calls = count_calls(self._folder)
        states = await asyncio.gather(*(self._state_of(url) for url in self._services.values()))
        self.seen.services = dict(zip(self._services, states, strict=True))
        # Before the tasks: what nobody has to take up any more is among them.
        stream = await self._get(f"/v1/streams/{requests.name}", _Stream)
        self.seen.lag, self.seen.changes_lag = stream.lag(SCHEDULER), stream.lag(OPERATIONS)
        await self._look_at_tasks()
        agents = await self._get("/v1/agents", _Agents)
        self.seen.agents = {agent.name: _summed(agent) for agent in agents.items}
        self._sample()

    def ending_per_second(self) -> float:
        """Deliveries that ended lately."""
        if len(self._samples) < 2:  # noqa: PLR2004  Between two looks.
            return 0.0
        first, last = self._samples[0], self._samples[-1]
        return (last.ended - first.ended) / max(last.at - first.at, 1e-9)

    async def _state_of(self, service_url: str) -> str:
        try:
            async with self._session.get(f"{service_url}/faults", timeout=_AT_ONCE) as answer:
                dial = msgspec.json.decode(await answer.read(), type=_Dial)
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError):
            return "gone"
        return "down" if dial.outage else "hangs" if dial.hang else "up"

    async def _look_at_tasks(self) -> None:
        """From the oldest delivery on that was still moving at the last look."""
        found: list[_Task] = []
        cursor: str | None = None
        while True:
            page = await self._get(
                "/v1/tasks", _Page, workflow="deliver", limit=PAGE, created_after=self._after(), cursor=cursor
            )
            found += page.items
            cursor = page.next
            if cursor is None:
                break
        self.seen.states.update({task.id: task.state for task in found})
        moving = [task.created_at for task in found if task.state not in ENDED]
        newest = [task.created_at for task in found[:1]]
        if moving or newest:
            since = min([*moving, *newest]) - _OVERLAP
            self._from = since if self._began is None else max(since, self._began)

    def _after(self) -> str | None:
        return None if self._from is None else self._from.isoformat()

    def _sample(self) -> None:
        now = self._clock()
        self._samples.append(_Sample(now, self.seen.ended))
        while self._samples[0].at < now - RATE_SECONDS:
            self._samples.popleft()

    async def _get(self, path: str, kind: type[_Answer], **query: Any) -> _Answer:
        given = {name: str(value) for name, value in query.items() if value is not None}
        try:
            async with self._session.get(
                f"{self._url}{path}", params=given, headers=authorization()
            ) as answer:
                if answer.status in _NOT_LET_IN:
                    raise NotLetIn("the store has tokens: set BACKSTAY_TOKEN to one of the role submit")
                if not answer.ok:
                    raise Out(f"{answer.status} at {path}")
                return msgspec.json.decode(await answer.read(), type=kind)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Out(str(error)) from error


def _summed(agent: _Agent) -> AgentSeen:
    return AgentSeen(
        in_flight=sum(one.in_flight for one in agent.instances),
        breakers_open=sum(one.breaker != "closed" for one in agent.instances),
    )
