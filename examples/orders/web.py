"""The web application that takes orders and shows their records.

POST /orders        an order is placed: its row and its task in one transaction
GET  /orders        the newest orders
GET  /orders/{id}   one of them
"""

from __future__ import annotations

import asyncio
import logging
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

from backstay import App, Conflict, Unavailable
from orders.order import NewOrder, Order
from orders.record import Record, record_of
from orders.table import OrderTable, OtherContent, Submit
from orders.wire import answer, body_as, problem, refused

log: Final = logging.getLogger("orders")

LISTED_MAX: Final = 100
KEY_LENGTH_MAX: Final = 200
RETRY_AFTER_SECONDS: Final = 1

_SQLITE: Final = "sqlite:///"
#: Makes the ids that are derived from keys this shop's own.
_SHOP: Final = uuid.UUID("6a1c52c6-5d0e-4b0f-9e0e-0b7a4f3c9d21")


def web_application(app: App, submit: Submit) -> Starlette:
    """``submit`` enters the task of an order in the transaction that it is given."""
    pages = _Pages(app, submit)
    return Starlette(
        routes=[
            Route("/", pages.newest, methods=["GET"]),
            Route("/", pages.place, methods=["POST"]),
            Route("/{order_id}", pages.one, methods=["GET"]),
        ],
        exception_handlers={
            HTTPException: refused,
            OtherContent: _taken,
            Conflict: _taken,
            Unavailable: _away,
            sqlite3.OperationalError: _away,
        },
        lifespan=pages.lifespan,
    )


def order_id_for(key: str | None) -> str:
    """The same id for the same key; without one, an id that nobody had before."""
    return str(uuid.uuid4() if key is None else uuid.uuid5(_SHOP, key))


class _Pages:
    def __init__(self, app: App, submit: Submit) -> None:
        self._app = app
        self._submit = submit

    @asynccontextmanager
    async def lifespan(self, _application: Starlette) -> AsyncIterator[None]:
        await asyncio.to_thread(self._table.create)
        yield

    async def one(self, request: Request) -> Response:
        order = await asyncio.to_thread(self._table.find, request.path_params["order_id"])
        if order is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "there is no such order")
        return answer(await self._record(order))

    async def place(self, request: Request) -> Response:
        key = _key(request)
        new = await body_as(request, NewOrder)
        order = Order(id=order_id_for(key), **msgspec.structs.asdict(new))
        await asyncio.to_thread(self._table.place, order, self._submit)
        location = f"{request.scope['root_path']}/{order.id}"
        return answer(await self._record(order), status=HTTPStatus.ACCEPTED, headers={"Location": location})

    async def newest(self, _request: Request) -> Response:
        placed = await asyncio.to_thread(self._table.newest, limit=LISTED_MAX)
        return answer([await self._record(order) for order in placed])

    async def _record(self, order: Order) -> Record:
        # The task first: an order that has come to its end is never shown with steps from before that.
        task = await self._app.task(order.id)
        return record_of(order, task, await self._app.steps(order.id))

    @property
    def _table(self) -> OrderTable:
        store = self._app.settings.store
        if not store.startswith(_SQLITE):
            raise RuntimeError(f"orders are kept in the store's own SQLite file; the store is no {_SQLITE}…")
        return OrderTable(Path(store.removeprefix(_SQLITE)))


def _key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not (key.isprintable() and 1 <= len(key) <= KEY_LENGTH_MAX):
        raise HTTPException(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"Idempotency-Key must have 1 to {KEY_LENGTH_MAX} printable characters",
        )
    return key


async def _taken(_request: Request, _error: Exception) -> Response:
    return problem(HTTPStatus.CONFLICT, "this Idempotency-Key stands for an order with other content")


async def _away(_request: Request, error: Exception) -> Response:
    log.warning("the store does not answer: %s", error)
    return problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "orders cannot be read or written now; try again",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )
