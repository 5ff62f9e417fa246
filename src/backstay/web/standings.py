"""How tasks, alerts, streams and queues stood a moment ago: counted now and then, not for each who asks."""

from __future__ import annotations

from typing import Final

import msgspec

from backstay.client import Client
from backstay.clock import Clock
from backstay.domain.alert import AlertKind
from backstay.domain.standing import Level, QueueStanding
from backstay.errors import Closed
from backstay.messaging.care import QueueCare
from backstay.store.records import TaskNumber
from backstay.streamroom import StreamView
from backstay.web.sampled import Sampled

#: So many tasks are counted in each state, so many alerts, and so many messages in each state of a queue.
COUNTED_MAX: Final = 10_000
TASKS_SECONDS: Final = 10.0

#: In no more streams than this is looked.
STREAMS_MAX: Final = 100
STREAMS_SECONDS: Final = 5.0

#: In no more queues than this, the first by their names.
QUEUES_MAX: Final = 100
QUEUES_SECONDS: Final = 10.0

#: The row of ``TaskNumber`` that is no state: tasks in processing past their complete-by.
EXPIRED: Final = "expired"


class TaskGauges(msgspec.Struct, frozen=True, kw_only=True):
    """How tasks and alerts stood a moment ago."""

    tasks: list[TaskNumber]
    alerts: dict[AlertKind, int]


class QueueGauges(msgspec.Struct, frozen=True, kw_only=True):
    """How the queues stood a moment ago."""

    standings: list[QueueStanding]
    levels: list[Level]


Standings = Sampled[list[StreamView]]


def sampled_tasks(client: Client, clock: Clock) -> Sampled[TaskGauges]:
    async def read() -> TaskGauges:
        tasks, alerts = await client.numbers(counted=COUNTED_MAX)
        return TaskGauges(tasks=tasks, alerts=alerts)

    return Sampled(read, seconds=TASKS_SECONDS, clock=clock)


def stream_standings(client: Client, clock: Clock) -> Standings:
    """How streams stood a moment ago."""

    async def look() -> list[StreamView]:
        try:
            room = client.streamroom
        except Closed:
            return []  # A process without a log.
        page = await room.streams(limit=STREAMS_MAX)
        return [await room.stream(one.name) for one in page.items]

    return Sampled(look, seconds=STREAMS_SECONDS, clock=clock)


def sampled_queues(queues: QueueCare, clock: Clock) -> Sampled[QueueGauges]:
    async def read() -> QueueGauges:
        return QueueGauges(
            standings=await queues.standings(limit=QUEUES_MAX, counted=COUNTED_MAX),
            levels=await queues.levels(limit=QUEUES_MAX, counted=COUNTED_MAX),
        )

    return Sampled(read, seconds=QUEUES_SECONDS, clock=clock)
