"""The queues of a server: the same questions as to a store's mailroom, over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from backstay.agents.http_answers import HttpAnswer
from backstay.domain.message import Sent
from backstay.domain.task import check_id
from backstay.mailroom import (
    DeadLetter,
    DeletedQueue,
    Discarded,
    PeekedMessage,
    QueueView,
    Resubmitted,
)
from backstay.views import Page

Get = Callable[..., Awaitable[Any]]
Send = Callable[..., Awaitable[HttpAnswer]]


class RemoteMailroom:
    """Asks through ``get`` and ``post``, which know the server; ``send`` tells the status as well."""

    def __init__(self, *, get: Get, post: Get, send: Send) -> None:
        self._get = get
        self._post = post
        self._send = send

    async def queues(self, *, after: str | None = None, limit: int = 100) -> Page[QueueView]:
        page: Page[QueueView] = await self._get(
            Page[QueueView], "queues", params={"cursor": after, "limit": limit}
        )
        return page

    async def declare(self, name: str, **options: Any) -> tuple[QueueView, bool]:
        answer = await self._send("PUT", _of(name), json=_given(options))
        return answer.json(QueueView), answer.status == HTTPStatus.CREATED

    async def delete(self, name: str, *, force: bool = False, reason: str | None = None) -> DeletedQueue:
        params = _given({"force": "true" if force else None, "reason": reason})
        return (await self._send("DELETE", _of(name), params=params)).json(DeletedQueue)

    async def send(self, to: str, body: Any, *, topic: bool = False, **options: Any) -> Sent:
        where = ("topics", check_id(to, name="name of the topic")) if topic else _of(to)
        sent: Sent = await self._post(Sent, *where, "messages", json={"body": body, **_given(options)})
        return sent

    async def peek(self, queue: str, *, limit: int = 100) -> Page[PeekedMessage]:
        page: Page[PeekedMessage] = await self._get(
            Page[PeekedMessage], *_of(queue), "messages", params={"limit": limit}
        )
        return page

    async def dead_letters(
        self, queue: str, *, after: int | None = None, limit: int = 100
    ) -> Page[DeadLetter]:
        page: Page[DeadLetter] = await self._get(
            Page[DeadLetter], *_of(queue), "dead", params={"cursor": after, "limit": limit}
        )
        return page

    async def resubmit(self, queue: str, id: str | None = None, *, reason: str | None = None) -> Resubmitted:
        which = () if id is None else (check_id(id),)
        done: Resubmitted = await self._post(
            Resubmitted, *_of(queue), "dead", *which, "resubmit", json={"reason": reason}
        )
        return done

    async def discard(self, queue: str, id: str | None = None, *, reason: str | None = None) -> Discarded:
        which = () if id is None else (check_id(id),)
        path = (*_of(queue), "dead", *which)
        return (await self._send("DELETE", path, params=_given({"reason": reason}))).json(Discarded)


def _of(queue: str) -> tuple[str, str]:
    return "queues", check_id(queue, name="name of the queue")


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
