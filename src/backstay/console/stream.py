"""One stream: how far groups have got in its partitions, what was set aside, and having that done again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.responses import Response

from backstay.console.progress import GROUPS_SHOWN, Paces, partition_rows, stream_row
from backstay.console.questions import asked
from backstay.console.visits import Visit, moved, number_in, reason_in
from backstay.domain.target import stream_target
from backstay.domain.task import check_id
from backstay.errors import InvalidInput, UnknownEvent
from backstay.streamroom import COUNTED_MAX, RESUBMITTED_MAX, QuarantinedEvent, StreamView

LOOKED_AT_EVERY: Final = timedelta(seconds=2)
#: So many partitions are shown at once, and so many events that were set aside.
PARTITIONS_SHOWN: Final = 64
EVENTS_SHOWN: Final = 25

Look = Callable[[], Awaitable[Sequence[StreamView]]]


class Watched:
    """Streams as they are looked at again and again: what moved in between tells how fast they are."""

    def __init__(self, visit: Visit, look: Look, template: str, **values: object) -> None:
        self._visit = visit
        self._look = look
        self._template = template
        self._values = values
        self._paces = Paces()

    async def part(self) -> str:
        views = await self._look()
        monotonic = self._visit.house.common.ports.clock.monotonic()
        return self._visit.part(
            self._template,
            views=views,
            paces=self._paces.of(views, monotonic=monotonic),
            stream_row=stream_row,
            partition_rows=partition_rows,
            counted=COUNTED_MAX,
            groups_shown=GROUPS_SHOWN,
            **self._values,
        )


async def show(visit: Visit) -> Response:
    name, group = visit.names["name"], visit.query.get("group")
    first = number_in(visit.query, "from") or 0
    if group is not None:
        check_id(group, name="name of the group")
    watched = Watched(
        visit, _looks_at(visit, name), "parts/stream.html", group=group, first=first, shown=PARTITIONS_SHOWN
    )
    if visit.wants_events:
        await visit.client.streamroom.stream(name)  # One that is not there has nothing to be watched.
        return visit.live(watched.part, about=f"stream {name} {group} {first}", every=LOOKED_AT_EVERY)
    part = await watched.part()
    return visit.page(
        "stream.html",
        name=name,
        part=part,
        seen=visit.mark(part),
        group=group,
        kept={**({"from": first} if first else {}), **({"group": group} if group else {})},
        **await _set_aside(visit, name, group),
    )


def _looks_at(visit: Visit, name: str) -> Look:
    async def look() -> Sequence[StreamView]:
        return [await visit.client.streamroom.stream(name)]

    return look


async def _set_aside(visit: Visit, name: str, group: str | None) -> dict[str, Any]:
    cursor = number_in(visit.query, "cursor")
    events = await visit.client.streamroom.quarantine(name, group=group, after=cursor, limit=EVENTS_SHOWN)
    kept = {"group": group} if group else {}
    here = f"/streams/{quote(name)}"
    return {
        "events": events.items,
        "first_path": None if cursor is None else f"{here}?{urlencode(kept)}#quarantine",
        "next_path": None
        if events.next is None
        else f"{here}?{urlencode({**kept, 'cursor': events.next})}#quarantine",
    }


# What was set aside


async def show_event(visit: Visit) -> Response:
    """One event with all that is known of it."""
    event = await _event(visit)
    template = "parts/event.html" if visit.wants_part else "event.html"
    return visit.page(template, stream=visit.names["name"], event=event)


async def ask_to_resubmit(visit: Visit) -> Response:
    event = await _event(visit)
    return await _asked(
        visit,
        f"Process event {event.offset:,} of partition {event.partition} again?",
        f"It goes through all stages of group {event.group}, after what is in hand of its key. If it fails"
        " again, it is here again, with the new reason.",
        "Resubmit",
    )


async def resubmit(visit: Visit) -> Response:
    event = await _event(visit)
    name = visit.names["name"]
    await visit.client.streamroom.resubmit(name, event.id, reason=reason_in(visit.form))
    return moved(_quarantine(name))


async def ask_to_resubmit_all(visit: Visit) -> Response:
    name = visit.names["name"]
    await visit.client.streamroom.quarantine(name, limit=1)  # Raises for a stream that is not there.
    return await _asked(
        visit,
        f"Process what was set aside of {name} again?",
        f"The oldest {RESUBMITTED_MAX:,} events at most, whichever group set them aside, go through all"
        " stages, after what is in hand of their keys. Those that fail again are here again, with the new"
        " reason.",
        "Resubmit all",
    )


async def resubmit_all(visit: Visit) -> Response:
    name = visit.names["name"]
    await visit.client.streamroom.resubmit(name, reason=reason_in(visit.form))
    return moved(_quarantine(name))


async def _event(visit: Visit) -> QuarantinedEvent:
    """The event in quarantine that the path names. Raises UnknownEvent."""
    name, number = visit.names["name"], number_in(visit.names, "id")
    if number is None:
        raise InvalidInput("an event in quarantine has a number")
    found = await visit.client.streamroom.quarantine(name, after=number - 1, limit=1)
    event = next((one for one in found.items if one.id == number), None)
    if event is None:
        raise UnknownEvent(name, number)
    return event


async def _asked(visit: Visit, title: str, says: str, button: str) -> Response:
    name = visit.names["name"]
    return await asked(
        visit, title, says=says, button=button, target=stream_target(name), back=_quarantine(name)
    )


def _quarantine(name: str) -> str:
    return f"/streams/{quote(name)}#quarantine"
