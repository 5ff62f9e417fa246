"""Queues and topics: how many messages are in them, and how full they are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from starlette.responses import Response

from backstay.console.visits import Visit
from backstay.domain.message import Property
from backstay.domain.task import check_id
from backstay.mailroom import LISTED_COUNT_MAX, QueueView, TopicView, view_of
from backstay.web.standings import COUNTED_MAX, QUEUES_MAX, QUEUES_SECONDS, QueueGauges

LOOKED_AT_EVERY: Final = timedelta(seconds=2)
#: So many topics, and of each so many subscriptions.
TOPICS_SHOWN: Final = 100
SUBSCRIPTIONS_SHOWN: Final = 20


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, and how many messages are in it, counted no further than a bound."""

    name: str
    ready: str
    locked: str
    scheduled: str
    deferred: str
    dead: str
    # Since when the oldest of those that can be received now has been there, if that is known.
    oldest: datetime | None
    bound: int
    # How much of the bound is used up, in percent; None: it was not counted to the end.
    filled: float | None


class Subscribed(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription: which messages it gets, and the row of its queue where that is known."""

    name: str
    queue: str
    where: Mapping[str, Property]
    row: Row | None


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with its first subscriptions, and how many are left out."""

    name: str
    subscriptions: list[Subscribed]
    left_out: int


def row_of(view: QueueView, oldest: datetime | None, *, counted: int) -> Row:
    numbers = (view.ready, view.locked, view.scheduled, view.deferred, view.dead)
    ready, locked, scheduled, deferred, dead = (_counted(number, counted) for number in numbers)
    used = sum(numbers) / view.max_messages
    return Row(
        name=view.name,
        ready=ready,
        locked=locked,
        scheduled=scheduled,
        deferred=deferred,
        dead=dead,
        oldest=oldest,
        bound=view.max_messages,
        # Who has more than was counted has at least that: it may be enough to know.
        filled=round(100 * min(1, used), 2) if max(numbers) < counted or used >= 1 else None,
    )


def _counted(number: int, counted: int) -> str:
    return f"{number:,}" if number < counted else f"{counted:,}+"


async def show(visit: Visit) -> Response:
    after = visit.query.get("cursor")
    if after is not None:
        check_id(after, name="cursor")

    async def part() -> str:
        return await _part(visit, after)

    if visit.wants_events:
        return visit.live(part, about=f"queues {after}", every=LOOKED_AT_EVERY)
    text = await part()
    return visit.page(
        "queues.html",
        part=text,
        seen=visit.mark(text),
        kept={} if after is None else {"cursor": after},
        counted_every=int(QUEUES_SECONDS) if after is None else None,
        counted=COUNTED_MAX,
    )


async def _part(visit: Visit, after: str | None) -> str:
    rows = await _rows(visit, after)
    topics = (await visit.client.mailroom.topics()).items if after is None else []
    of_topics = {one.queue for topic in topics for one in topic.subscriptions}
    by_name = {one.name: one for one in rows}
    return visit.part(
        "parts/queues.html",
        queues=[one for one in rows if one.name not in of_topics],
        topics=[_topic(one, by_name) for one in topics[:TOPICS_SHOWN]],
        left_out=max(0, len(topics) - TOPICS_SHOWN),
        is_first=after is None,
        next=rows[-1].name if len(rows) >= QUEUES_MAX else None,
    )


async def _rows(visit: Visit, after: str | None) -> list[Row]:
    """The first queues as everybody sees them; those further back as they are now."""
    if after is None:
        gauges = await visit.house.common.queue_gauges.get()
        oldest = oldest_of(gauges)
        return [
            row_of(view, oldest.get(view.name), counted=COUNTED_MAX)
            for view in map(view_of, gauges.standings)
        ]
    found = (await visit.client.mailroom.queues(after=after, limit=QUEUES_MAX)).items
    return [row_of(view, None, counted=LISTED_COUNT_MAX) for view in found]


def oldest_of(gauges: QueueGauges) -> dict[str, datetime]:
    """Since when the oldest message that can be received now has been there, by queues that have one."""
    found: dict[str, datetime] = {}
    for level in gauges.levels:
        found[level.queue] = min(level.oldest, found.get(level.queue, level.oldest))
    return found


def _topic(topic: TopicView, rows: Mapping[str, Row]) -> Topic:
    return Topic(
        name=topic.name,
        subscriptions=[
            Subscribed(name=one.name, queue=one.queue, where=one.where, row=rows.get(one.queue))
            for one in topic.subscriptions[:SUBSCRIPTIONS_SHOWN]
        ],
        left_out=max(0, len(topic.subscriptions) - SUBSCRIPTIONS_SHOWN),
    )
