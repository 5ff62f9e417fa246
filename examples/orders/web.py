"""The web application that takes orders and shows their records.

POST /orders        an order is placed: its row and its task in one transaction
GET  /orders        the newest orders
GET  /orders/{id}   one of them
"""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backstay import IdConflict, Unavailable
from orders.order import NewOrder, Order
from orders.record import Record, record_of
from orders.table import OrderTable, OtherContent
from orders.wire import answer, body_as, problem, refused
from orders.workflow import app, fulfil

log: Final = logging.getLogger("orders")

LISTED_MAX: Final = 100
KEY: Final = re.compile(r"[!-~]{1,200}")
RETRY_AFTER_SECONDS: Final = 1

_SQLITE: Final = "sqlite:///"
#: Makes the ids that are derived from keys this shop's own.
_SHOP: Final = uuid.UUID("6a1c52c6-5d0e-4b0f-9e0e-0b7a4f3c9d21")


# Place


async def place(request: Request) -> Response:
    """202 once the order and its task are in the store: from here on any process may die."""
    key = _key(request)
    new = await body_as(request, NewOrder)
    order = Order(id=order_id_for(new.customer, key), **msgspec.structs.asdict(new))
    await asyncio.to_thread(_write, order)
    location = f"{request.scope['root_path']}/{order.id}"
    return answer(await _record(order), status=HTTPStatus.ACCEPTED, headers={"Location": location})


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


def _write(order: Order) -> None:
    """The order and its task, in one transaction."""
    with _table().placing(order) as connection:
        app.submit_in(connection, fulfil, order, id=order.id)


# Ask


async def show(request: Request) -> Response:
    order = await asyncio.to_thread(_table().find, request.path_params["order_id"])
    if order is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "there is no such order")
    return answer(await _record(order))


async def show_newest(_request: Request) -> Response:
    placed = await asyncio.to_thread(_table().newest, limit=LISTED_MAX)
    return answer([await _record(order) for order in placed])


async def _record(order: Order) -> Record:
    # The task first: an order that has come to its end is never shown with steps from before that.
    task = await app.task(order.id)
    return record_of(order, task, await app.steps(order.id))


# What they stand on


@asynccontextmanager
async def _with_table(_application: Starlette) -> AsyncIterator[None]:
    await asyncio.to_thread(_table().create)
    yield


def _table() -> OrderTable:
    store = app.settings.store
    if not store.startswith(_SQLITE) or ":memory:" in store:
        raise RuntimeError(f"orders are kept in the store's own SQLite file; the store is no {_SQLITE}…")
    return OrderTable(Path(store.removeprefix(_SQLITE)))


# Errors


async def _taken(_request: Request, _error: Exception) -> Response:
    return problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "this Idempotency-Key came with another order before; use a new one",
    )


async def _away(_request: Request, error: Exception) -> Response:
    log.warning("the store does not answer: %s", error)
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
        IdConflict: _taken,
        Unavailable: _away,
        sqlite3.OperationalError: _away,
    },
    lifespan=_with_table,
)
