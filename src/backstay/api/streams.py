"""Streams over HTTP: append events, read them, see how far groups have got, and what was set aside."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec

from backstay.api.calls import Call, Header, Nothing, Reply
from backstay.api.contents import Content
from backstay.api.shapes import ID_PATTERN, Because, Cursor, Id, Limit, Number, ReasonQuery
from backstay.definitions.codec import check_size
from backstay.domain import jsontext
from backstay.domain.stream import KEY_LENGTH_MAX, PARTITIONS_MOST, Appended, NewEvent
from backstay.errors import InvalidInput
from backstay.messaging.lines import AppendedLines, Range
from backstay.streamroom import (
    EventPage,
    ForgottenGroup,
    QuarantinedEvent,
    Returned,
    StreamSummary,
    StreamView,
)
from backstay.views import Page
from backstay.web.problems import NO_GOOD_LINE, NOT_JSON, Refused, RejectedLine, rejected_line

EVENT_KEY: Final = Header(
    name="Backstay-Key",
    pattern=f"[\\x21-\\x7e]([\\x20-\\x7e]{{0,{KEY_LENGTH_MAX - 2}}}[\\x21-\\x7e])?",
    description="Events of one key stay in order. A key that is not ASCII goes into the query, as `key`.",
)
EVENT_ID: Final = Header(
    name="Backstay-Id",
    pattern=ID_PATTERN,
    description="With an id an event is appended once within the stream's window, however often it is sent.",
)

_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Partition = Annotated[int, msgspec.Meta(ge=0, lt=PARTITIONS_MOST)]
_Key = Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_LENGTH_MAX)]


class StreamPath(msgspec.Struct, frozen=True):
    stream: Id


class PartitionPath(msgspec.Struct, frozen=True):
    stream: Id
    partition: _Partition


class GroupPath(msgspec.Struct, frozen=True):
    stream: Id
    group: Id


class QuarantinedPath(msgspec.Struct, frozen=True):
    stream: Id
    id: Number


class StreamQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = 100
    cursor: Id | None = None


class EventQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one event; of lines, each says that of its own."""

    key: _Key | None = None
    id: Id | None = None


class ReadQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    start: _Offset = msgspec.field(name="from", default=0)
    limit: Limit = 100


class QuarantineQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: Id | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class StreamTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stream to be made; durations such as "7d". What is left out is as the settings say."""

    partitions: Annotated[int, msgspec.Meta(ge=1, le=PARTITIONS_MOST)] | None = None
    retention: str | None = None
    dedup: str | None = None


class Accepted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one event where it is, and whether it was there before; of lines what became of them."""

    partition: int | msgspec.UnsetType = msgspec.UNSET
    offset: int | msgspec.UnsetType = msgspec.UNSET
    duplicate: bool | msgspec.UnsetType = msgspec.UNSET
    accepted: int | msgspec.UnsetType = msgspec.UNSET
    rejected: int | msgspec.UnsetType = msgspec.UNSET
    ranges: list[Range] | msgspec.UnsetType = msgspec.UNSET
    errors: list[RejectedLine] | msgspec.UnsetType = msgspec.UNSET


# Streams


async def list_streams(call: Call[Nothing, StreamQuery, Nothing]) -> Page[StreamSummary]:
    return await call.client.streamroom.streams(after=call.query.cursor, limit=call.query.limit)


async def get_stream(call: Call[StreamPath, Nothing, Nothing]) -> StreamView:
    return await call.client.streamroom.stream(call.path.stream)


async def put_stream(call: Call[StreamPath, Nothing, StreamTerms]) -> Reply[StreamView]:
    view, new = await call.client.streamroom.declare(call.path.stream, **msgspec.structs.asdict(call.body))
    return Reply(view, status=HTTPStatus.CREATED if new else HTTPStatus.OK)


# Events


async def append_events(call: Call[StreamPath, EventQuery, Content]) -> Accepted:
    if call.body.lines:
        return await _append_lines(call)
    event = checked_event(
        call.path.stream,
        call.body.data,
        key=_once(call, EVENT_KEY, call.query.key, "key"),
        id=_once(call, EVENT_ID, call.query.id, "id"),
        bytes_max=call.service.ports.settings.payload_bytes_max,
    )
    return placed(await call.service.ports.client.streamroom.append_event(call.path.stream, event))


def checked_event(stream: str, data: bytes, *, key: str | None, id: str | None, bytes_max: int) -> NewEvent:
    """The event whose body came as ``data``. Raises a kind of InvalidRequest."""
    body = jsontext.canonical(data)
    if len(body) > bytes_max:  # Only then is it said of what.
        check_size(body, f"body of an event of {stream}", bytes_max)
    return NewEvent(body=body, key=key, id=id)


def placed(appended: Appended) -> Accepted:
    return Accepted(partition=appended.partition, offset=appended.offset, duplicate=appended.duplicate)


def _once(call: Call[Any, Any, Any], header: Header, in_query: str | None, name: str) -> str | None:
    """What the header says, or the query. Raises InvalidInput when both do."""
    in_header = call.headers.get(header.name)
    if in_header is not None and in_query is not None:
        raise InvalidInput(f"header {header.name} and parameter {name} are both given; give one of them")
    return in_query if in_header is None else in_header


async def _append_lines(call: Call[StreamPath, EventQuery, Content]) -> Accepted:
    if call.headers or call.query != EventQuery():
        raise InvalidInput("of lines, each says its own key and id: leave out header and parameter")
    told = await call.service.ports.client.streamroom.append_lines(call.path.stream, call.body.data)
    if not told.accepted and not told.rejected:
        raise Refused(NOT_JSON, "there is nothing but blank lines in the body; send at least one event")
    return taken_in(told)


def taken_in(told: AppendedLines) -> Accepted:
    """Raises Refused when none of the lines was good."""
    errors = [rejected_line(bad) for bad in told.errors]
    if not told.accepted:
        raise Refused(
            NO_GOOD_LINE,
            f"none of {told.rejected:,} lines was accepted; line {errors[0].line}: {errors[0].detail}",
            errors=errors,
        )
    return Accepted(accepted=told.accepted, rejected=told.rejected, ranges=told.ranges, errors=errors)


async def list_events(call: Call[PartitionPath, ReadQuery, Nothing]) -> EventPage:
    return await call.client.streamroom.events(
        call.path.stream, call.path.partition, start=call.query.start, limit=call.query.limit
    )


# Groups, and what they set aside


async def forget_group(call: Call[GroupPath, ReasonQuery, Nothing]) -> ForgottenGroup:
    return await call.client.streamroom.forget(call.path.stream, call.path.group, reason=call.query.reason)


async def list_quarantine(call: Call[StreamPath, QuarantineQuery, Nothing]) -> Page[QuarantinedEvent]:
    return await call.client.streamroom.quarantine(
        call.path.stream, group=call.query.group, after=call.query.cursor, limit=call.query.limit
    )


async def resubmit_quarantined(call: Call[QuarantinedPath, Nothing, Because]) -> Returned:
    return await call.client.streamroom.resubmit(call.path.stream, call.path.id, reason=call.body.reason)


async def resubmit_all_quarantined(call: Call[StreamPath, Nothing, Because]) -> Returned:
    return await call.client.streamroom.resubmit(call.path.stream, reason=call.body.reason)
