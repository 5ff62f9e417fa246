"""Where the staff looks at the record of an order: GET /records/{id}."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backstay import UnknownTask
from orders.order import Order
from orders.record import record_of
from orders.wire import answer, refused
from orders.workflow import app


async def show(request: Request) -> Response:
    order_id = request.path_params["order_id"]
    try:
        # The task first: an order that has come to its end is never shown with steps from before that.
        task = await app.task(order_id)
        steps = await app.steps(order_id)
    except UnknownTask:
        raise HTTPException(HTTPStatus.NOT_FOUND, "no such order has been accepted yet") from None
    return answer(record_of(msgspec.convert(task.input, Order), task, steps))


staff = Starlette(
    routes=[Route("/{order_id}", show, methods=["GET"])], exception_handlers={HTTPException: refused}
)
