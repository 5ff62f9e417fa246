"""The overview: what needs a person on top, and how work flows, live."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from starlette.responses import Response

from backstay.console.samples import EVERY_SECONDS, Sample
from backstay.console.visits import Visit
from backstay.domain.breaker import BreakerState
from backstay.domain.states import TaskState
from backstay.domain.wording import age
from backstay.store.records import AlertFilter, TaskNumber
from backstay.streamroom import StreamView
from backstay.views import AgentView, RoundView, WorkflowView
from backstay.web.standings import COUNTED_MAX, EXPIRED, TASKS_SECONDS

LOOKED_AT_EVERY: Final = timedelta(seconds=2)
ALERTS_MAX: Final = 8
ROUNDS_MAX: Final = 1_000
RECOVERED_WITHIN: Final = timedelta(hours=1)

#: In the order in which a task comes through them.
_ORDER: Final = (
    TaskState.PENDING,
    TaskState.PROCESSING,
    TaskState.WAITING,
    TaskState.PROCESSED,
    TaskState.ERROR,
    TaskState.UNDOING,
    TaskState.UNDONE,
    TaskState.UNDO_FAILED,
    TaskState.CANCELLED,
)
#: What stands where nothing is known yet.
_UNKNOWN: Final = "\N{EN DASH}"
#: A rate from which on nobody reads its tenths.
_LARGE: Final = 10

#: Where a task stops for a person.
_STUCK: Final = (TaskState.ERROR, TaskState.UNDO_FAILED)


class Tile(msgspec.Struct, frozen=True, kw_only=True):
    """One number, and what it means."""

    name: str
    number: str
    note: str = ""
    is_loud: bool = False
    path: str | None = None


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks are in a state."""

    state: str
    number: str
    # Of the largest, in percent.
    width: float
    oldest: datetime | None


async def show(visit: Visit) -> Response:
    if visit.wants_events:
        return visit.live(lambda: _part(visit), about="overview", every=LOOKED_AT_EVERY)
    part = await _part(visit)
    samples = visit.house.samples.all()
    return visit.page(
        "overview.html",
        part=part,
        seen=visit.mark(part),
        samples=_columns(samples),
        every=int(EVERY_SECONDS),
    )


async def _part(visit: Visit) -> str:
    common, client = visit.house.common, visit.client
    now = common.ports.clock.now()
    gauges = await common.task_gauges.get()
    agents, workflows = await client.agents(), await client.workflows()
    numbers = {one.state: one for one in gauges.tasks}
    return visit.part(
        "parts/overview.html",
        alerts=await client.alerts(AlertFilter(open_only=True, limit=ALERTS_MAX)),
        stuck=[numbers[state] for state in _STUCK if numbers[state].number],
        held=_held(agents, workflows),
        tiles=_tiles(
            numbers,
            visit.house.samples.newest,
            rounds=await client.rounds(limit=ROUNDS_MAX),
            streams=await common.stream_standings.get(),
            agents=agents,
            now=now,
        ),
        levels=_levels(numbers),
        counted_every=int(TASKS_SECONDS),
        counted=COUNTED_MAX,
        sample=_columns([newest] if (newest := visit.house.samples.newest) else []),
    )


def _held(agents: Iterable[AgentView], workflows: Iterable[WorkflowView]) -> list[str]:
    """What does not begin because somebody, or its own breaker, holds it back."""
    return [
        *(f"workflow {one.name} is paused by {one.held_by}" for one in workflows if one.paused),
        *(f"agent {one.name} is paused by {one.held_by}" for one in agents if one.paused),
        *(
            f"the breaker of agent {one.name} is held {one.forced_breaker} by {one.held_by}"
            for one in agents
            if one.forced_breaker
        ),
        *(f"the breaker of agent {one.name} is open" for one in agents if _is_open(one)),
    ]


def _is_open(agent: AgentView) -> bool:
    return any(one.breaker == BreakerState.OPEN for one in agent.instances)


def _tiles(
    numbers: Mapping[str, TaskNumber],
    newest: Sample | None,
    *,
    rounds: Sequence[RoundView],
    streams: Sequence[StreamView],
    agents: Sequence[AgentView],
    now: datetime,
) -> list[Tile]:
    pending, undoing = numbers[TaskState.PENDING], numbers[TaskState.UNDOING]
    recovered = sum(one.recovered for one in rounds if one.at > now - RECOVERED_WITHIN)
    lag = max((one.lag for stream in streams for one in stream.groups), default=0)
    breakers = sum(_is_open(one) for one in agents)
    failing = 0.0 if newest is None or not newest.ended else 100 * newest.failed / newest.ended
    expired = numbers[EXPIRED].number
    return [
        Tile(name="in", number=_rate(None if newest is None else newest.entered), note="tasks a second"),
        Tile(name="out", number=_rate(None if newest is None else newest.ended), note="tasks a second"),
        Tile(
            name="failing",
            number=_UNKNOWN if newest is None else f"{failing:.1f} %",
            note="of those that ended",
            is_loud=failing >= 1,
        ),
        Tile(
            name="in flight",
            number=_counted(numbers[TaskState.PROCESSING].number),
            note=f"{expired:,} past complete-by" if expired else "processing now",
            path="/tasks?state=processing",
        ),
        Tile(
            name="queued",
            number=_counted(pending.number),
            note=f"oldest {age(pending.oldest, now=now)}" if pending.oldest else "none waits",
            path="/tasks?state=pending",
        ),
        Tile(
            name="undo queue",
            number=_counted(undoing.number),
            note="being undone",
            path="/tasks?state=undoing",
        ),
        Tile(name="recovered", number=f"{recovered:,}", note="in the last hour", path="/supervisor"),
        Tile(name="stream lag", number=f"{lag:,}", note="events, furthest behind", path="/streams"),
        Tile(
            name="breakers",
            number=f"{breakers:,}",
            note=f"open, of {len(agents):,} agent{'' if len(agents) == 1 else 's'}",
            is_loud=breakers > 0,
            path="/agents",
        ),
    ]


def _levels(numbers: Mapping[str, TaskNumber]) -> list[Level]:
    most = max(numbers[state].number for state in _ORDER) or 1
    return [
        Level(
            state=state,
            number=_counted(numbers[state].number),
            width=round(100 * numbers[state].number / most, 2),
            oldest=numbers[state].oldest if numbers[state].number else None,
        )
        for state in _ORDER
    ]


def _counted(number: int) -> str:
    """Counts end somewhere: what is beyond that is more."""
    return f"{number:,}" if number < COUNTED_MAX else f"{COUNTED_MAX:,}+"


def _rate(rate: float | None) -> str:
    if rate is None:
        return _UNKNOWN
    return f"{rate:,.0f}" if rate >= _LARGE else f"{rate:.1f}"


def _columns(samples: Sequence[Sample]) -> str:
    """As charts take them: a list for each field."""
    fields = Sample.__struct_fields__
    columns = {name: [getattr(one, name) for one in samples] for name in fields}
    return msgspec.json.encode(columns).decode()
