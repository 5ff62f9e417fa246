"""One agent: how long its calls take and how many fail, what its breakers did, and who held it back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec
from starlette.responses import Response

from backstay.console.agents import buttons
from backstay.console.breaker_strip import history
from backstay.console.visits import Visit
from backstay.domain.audit import Entry
from backstay.domain.control import Subject
from backstay.domain.target import control_target
from backstay.domain.wording import brief
from backstay.errors import UnknownAgent
from backstay.store.records import AuditFilter
from backstay.views import AgentInstance, AgentView, CallsView

LOOKED_AT_EVERY: Final = timedelta(seconds=2)
TRAIL_MAX: Final = 20

#: What stands where nothing is known.
_UNKNOWN: Final = "\N{EN DASH}"

#: Beyond what is to be seen, so that nothing of it lies on the edge.
_MARGIN: Final = 1.25


class Tile(msgspec.Struct, frozen=True, kw_only=True):
    """One number, and what it means."""

    name: str
    number: str
    note: str
    is_loud: bool = False


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Where percentiles lie, in percent of a line on which each stretch stands for the same factor."""

    p50: float
    p95: float
    p99: float


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """How the agent stands in one process."""

    stands: AgentInstance
    spread: Spread | None


async def show(visit: Visit) -> Response:
    name = visit.names["name"]
    await _check_known(visit, name)
    if visit.wants_events:
        return visit.live(lambda: _part(visit, name), about=f"agent {name}", every=LOOKED_AT_EVERY)
    part = await _part(visit, name)
    return visit.page("agent.html", name=name, part=part, seen=visit.mark(part))


async def _part(visit: Visit, name: str) -> str:
    agent = await visit.client.agent(name)
    return visit.part(
        "parts/agent.html",
        agent=agent,
        buttons=buttons(agent, at_page=True),
        tiles=_tiles(agent),
        processes=_processes(agent.instances),
        history=history(agent.instances, now=visit.house.common.ports.clock.now()),
        trail=await _trail(visit, name),
    )


async def _check_known(visit: Visit, name: str) -> None:
    """Raises UnknownAgent. One whose processes have ended is still worth a look."""
    agent = await visit.client.agent(name)
    if not (agent.instances or agent.held_by or await _trail(visit, name)):
        raise UnknownAgent(name)


async def _trail(visit: Visit, name: str) -> list[Entry]:
    wanted = AuditFilter(target=control_target(Subject.AGENT, name), limit=TRAIL_MAX)
    return (await visit.client.audit(wanted)).items


def _tiles(agent: AgentView) -> list[Tile]:
    calls = agent.calls
    return [
        Tile(name="calls", number=f"{calls.number:,}", note="ended lately"),
        Tile(name="p50", number=_length(calls.p50_seconds), note="half are quicker"),
        Tile(name="p95", number=_length(calls.p95_seconds), note="1 in 20 is slower"),
        Tile(name="p99", number=_length(calls.p99_seconds), note="1 in 100 is slower"),
        Tile(
            name="failing",
            number=f"{100 * calls.failed / calls.number:.1f} %" if calls.number else _UNKNOWN,
            note="of the calls",
            is_loud=calls.failed > 0,
        ),
        Tile(
            name="at work", number=f"{sum(one.in_flight for one in agent.instances):,}", note="under way now"
        ),
        Tile(name="waiting", number=f"{sum(one.waiting for one in agent.instances):,}", note="for a slot"),
    ]


def _length(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else brief(seconds)


def _processes(instances: Sequence[AgentInstance]) -> list[Process]:
    """All on the same line, from the shortest length that is to be seen to the longest."""
    known = [seconds for one in instances for seconds in _percentiles(one.calls)]
    if not known:
        return [Process(stands=one, spread=None) for one in instances]
    first, last = min(known) / _MARGIN, max(known) * _MARGIN

    def place(seconds: float) -> float:
        return round(100 * math.log(seconds / first) / math.log(last / first), 2)

    spreads = [[place(seconds) for seconds in _percentiles(one.calls)] for one in instances]
    return [
        Process(stands=one, spread=Spread(p50=places[0], p95=places[1], p99=places[2]) if places else None)
        for one, places in zip(instances, spreads, strict=True)
    ]


def _percentiles(calls: CallsView) -> list[float]:
    """The three of them, or none."""
    return [one for one in (calls.p50_seconds, calls.p95_seconds, calls.p99_seconds) if one is not None]
