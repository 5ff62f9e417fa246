"""The streams of a server: the same questions as to a store's streamroom, over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from backstay.agents.http_answers import HttpAnswer
from backstay.domain.ndjson import BadLine
from backstay.domain.stream import Appended
from backstay.domain.task import check_id
from backstay.errors import InvalidRequest
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

_NO_GOOD_LINE: Final = "urn:backstay:problem:no-good-line"

Get = Callable[..., Awaitable[Any]]
Send = Callable[..., Awaitable[HttpAnswer]]


class _Rejected(msgspec.Struct):
    line: int
    detail: str


class _Told(msgspec.Struct):
    """What a server says of lines, whether it took some of them or none."""

    type: str = ""
    accepted: int = 0
    ranges: list[Range] = []
    errors: list[_Rejected] = []


class RemoteStreamroom:
    """Asks through ``get`` and ``post``, which know the server; ``send`` gives the whole answer."""

    def __init__(self, *, get: Get, post: Get, send: Send) -> None:
        self._get = get
        self._post = post
        self._send = send

    async def streams(self, *, after: str | None = None, limit: int = 100) -> Page[StreamSummary]:
        page: Page[StreamSummary] = await self._get(
            Page[StreamSummary], "streams", params={"cursor": after, "limit": limit}
        )
        return page

    async def stream(self, name: str) -> StreamView:
        view: StreamView = await self._get(StreamView, *_of(name))
        return view

    async def declare(self, name: str, **options: Any) -> tuple[StreamView, bool]:
        answer = await self._send("PUT", _of(name), json=_given(options))
        return answer.json(StreamView), answer.status == HTTPStatus.CREATED

    async def append(
        self, stream: str, body: Any = None, *, key: str | None = None, id: str | None = None
    ) -> Appended:
        # As JSON that is there: ``null`` is an event as well, and no body at all is none.
        answer = await self._send(
            "POST",
            (*_of(stream), "events"),
            data=msgspec.json.encode(body),
            params=_given({"key": key, "id": id}),
            headers={"Content-Type": "application/json"},
        )
        return answer.json(Appended)

    async def append_lines(self, stream: str, text: bytes) -> AppendedLines:
        answer = await self._send(
            "POST",
            (*_of(stream), "events"),
            data=text,
            headers={"Content-Type": "application/x-ndjson"},
            fine=_says_of_each,
        )
        told = answer.json(_Told)
        errors = [BadLine(one.line, InvalidRequest(one.detail)) for one in told.errors]
        return AppendedLines(accepted=told.accepted, rejected=len(errors), ranges=told.ranges, errors=errors)

    async def events(self, stream: str, partition: int, *, start: int = 0, limit: int = 100) -> EventPage:
        page: EventPage = await self._get(
            EventPage,
            *_of(stream),
            "partitions",
            partition,
            "events",
            params={"from": start, "limit": limit},
        )
        return page

    async def forget(self, stream: str, group: str, *, reason: str | None = None) -> ForgottenGroup:
        path = (*_of(stream), "groups", check_id(group, name="name of the group"))
        return (await self._send("DELETE", path, params=_given({"reason": reason}))).json(ForgottenGroup)

    async def quarantine(
        self, stream: str, *, group: str | None = None, after: int | None = None, limit: int = 100
    ) -> Page[QuarantinedEvent]:
        page: Page[QuarantinedEvent] = await self._get(
            Page[QuarantinedEvent],
            *_of(stream),
            "quarantine",
            params={"group": group, "cursor": after, "limit": limit},
        )
        return page

    async def resubmit(self, stream: str, id: int | None = None, *, reason: str | None = None) -> Returned:
        which = () if id is None else (id,)
        done: Returned = await self._post(
            Returned, *_of(stream), "quarantine", *which, "resubmit", json={"reason": reason}
        )
        return done


def _says_of_each(answer: HttpAnswer) -> bool:
    """Whether an answer tells what became of each line, be it that none was good."""
    if answer.status != HTTPStatus.BAD_REQUEST:
        return False
    try:
        return msgspec.json.decode(answer.body, type=_Told).type == _NO_GOOD_LINE
    except msgspec.MsgspecError:
        return False


def _of(stream: str) -> tuple[str, str]:
    return "streams", check_id(stream, name="name of the stream")


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
