"""The web application: ``backstay serve orders.web:app --roles api,ingest``.

POST /orders        an order is placed: it is sent to the queue ``orders``
GET  /orders        the newest orders
GET  /orders/{id}   one of them, as far as the web application was told of it

It knows nothing of tasks. Those who fulfil orders get messages from here and send messages back, to a queue
that is this application's own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backstay import App, Message, Unavailable
from orders.book import Book, Entry, OtherContent, Status
from orders.order import NewOrder, Order
from orders.wire import answer, body_as, problem, refused

log: Final = logging.getLogger("orders")

LISTED_MAX: Final = 100
SENT_AGAIN_MAX: Final = 1_000
KEY: Final = re.compile(r"[!-~]{1,200}")
RETRY_AFTER_SECONDS: Final = 1

#: Makes the ids that are derived from keys this shop's own.
_SHOP: Final = uuid.UUID("6a1c52c6-5d0e-4b0f-9e0e-0b7a4f3c9d21")

app = App("web")
orders = app.queue("orders")
statuses = app.queue("order-status", sessions=True)  # Those of one order come one after the other.
book = Book(os.environ.get("WEB_DATABASE", "web.db"))


# Place


async def place(request: Request) -> Response:
    """202 once the message is in its queue: from here on any process may die."""
    key = _key(request)
    new = await body_as(request, NewOrder)
    order = Order(id=order_id_for(new.customer, key), **msgspec.structs.asdict(new))
    await asyncio.to_thread(book.place, order)
    await _send(order)
    location = f"{request.scope['root_path']}/{order.id}"
    return answer(await _standing(order.id), status=HTTPStatus.ACCEPTED, headers={"Location": location})


def order_id_for(customer: str, key: str | None) -> str:
    """The same whenever the same key of the same customer comes again; without one, new."""
    if key is None:
        return str(uuid.uuid4())
    # Neither holds a line feed: no two pairs of them make the same name.
    return str(uuid.uuid5(_SHOP, f"{customer}\n{key}"))


def _key(request: Request) -> str | None:
    given = request.headers.getlist("idempotency-key")
    if len(given) > 1 or not all(KEY.fullmatch(key) for key in given):
        raise HTTPException(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "Idempotency-Key must be given once, with 1 to 200 visible ASCII characters",
        )
    return given[0] if given else None


async def _send(order: Order) -> None:
    """The id of the order is that of its message: sent again, it adds nothing."""
    await orders.send(order, id=order.id, properties={"reply_to": f"queue:{statuses.name}"})


@asynccontextmanager
async def _caught_up(_application: Starlette) -> AsyncIterator[None]:
    """Send what the last process wrote into the book, and perhaps died before it sent it."""
    for order in await asyncio.to_thread(book.unheard, limit=SENT_AGAIN_MAX):
        await _send(order)
    yield


# Hear


@app.consumer(statuses, delay="1s")
async def hear(message: Message) -> None:
    """The message is complete when this returns; if it comes again all the same, the book knows its id."""
    await asyncio.to_thread(book.hear, message.id, msgspec.convert(message.body, Status))


# Ask


class Told(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    at: datetime


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a customer sees: how the order stands, how it came there, and the error that stopped it."""

    id: str
    customer: str
    cents: int
    status: str
    history: list[Told]
    error: str | msgspec.UnsetType = msgspec.UNSET


def standing_of(entry: Entry) -> Standing:
    """The last status counts. Never the card token."""
    order, last = entry.order, entry.told[-1] if entry.told else None
    return Standing(
        id=order.id,
        customer=order.customer,
        cents=order.cents,
        status=last.status if last else "placed",
        history=[Told(status=one.status, at=one.at) for one in entry.told],
        error=last.error.message if last and last.error else msgspec.UNSET,
    )


async def show(request: Request) -> Response:
    return answer(await _standing(request.path_params["order_id"]))


async def show_newest(_request: Request) -> Response:
    return answer([standing_of(one) for one in await asyncio.to_thread(book.newest, limit=LISTED_MAX)])


async def _standing(order_id: str) -> Standing:
    found = await asyncio.to_thread(book.find, order_id)
    if found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "there is no such order")
    return standing_of(found)


# Errors


async def _taken(_request: Request, _error: Exception) -> Response:
    return problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "this Idempotency-Key came with another order before; use a new one",
    )


async def _away(_request: Request, error: Exception) -> Response:
    log.warning("the queue or the book does not answer: %s", error)
    return problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "orders cannot be read or written now; try again",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


customers = Starlette(
    routes=[
        Route("/", place, methods=["POST"]),
        Route("/", show_newest, methods=["GET"]),
        Route("/{order_id}", show, methods=["GET"]),
    ],
    exception_handlers={
        HTTPException: refused,
        OtherContent: _taken,
        Unavailable: _away,
        sqlite3.OperationalError: _away,
    },
    lifespan=_caught_up,
)
app.mount("/orders", customers)
