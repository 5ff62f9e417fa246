"""Streams: each with its groups, and how far behind they are."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from backstay.console.stream import LOOKED_AT_EVERY, Look, Watched
from backstay.console.visits import Visit
from backstay.domain.task import check_id
from backstay.streamroom import StreamView
from backstay.web.standings import STREAMS_MAX, STREAMS_SECONDS


async def show(visit: Visit) -> Response:
    after = visit.query.get("cursor")
    if after is not None:
        check_id(after, name="cursor")
    watched = Watched(visit, _looks_from(visit, after), "parts/streams.html", shown=STREAMS_MAX)
    if visit.wants_events:
        return visit.live(watched.part, about=f"streams {after}", every=LOOKED_AT_EVERY)
    part = await watched.part()
    return visit.page(
        "streams.html",
        part=part,
        seen=visit.mark(part),
        kept={} if after is None else {"cursor": after},
        sampled_every=int(STREAMS_SECONDS) if after is None else None,
    )


def _looks_from(visit: Visit, after: str | None) -> Look:
    """The first streams as everybody sees them; those further back as they are now."""
    if after is None:
        return visit.house.common.stream_standings.get

    async def look() -> Sequence[StreamView]:
        room = visit.client.streamroom
        page = await room.streams(after=after, limit=STREAMS_MAX)
        return [await room.stream(one.name) for one in page.items]

    return look
