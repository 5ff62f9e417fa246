"""The workflow of an order: an agent around the payment provider, its step with its undo."""

from __future__ import annotations

import os
from http import HTTPStatus
from typing import Final

from backstay import App, Breaker, HttpFailed, Permanent, Recovery, Retry
from orders.order import Order

PAYMENT: Final = "payment"

app = App("orders")
payment = app.http_agent(
    PAYMENT,
    os.environ.get("PAYMENT_URL", "http://127.0.0.1:8090"),
    complete_by=os.environ.get("PAYMENT_COMPLETE_BY", "2s"),
    retry=Retry(attempts=2, first="100ms"),
    breaker=Breaker(failures=10, within="10s", open_for="5s"),
)


@payment.step
async def charge(order: Order) -> None:
    # Under the order's own id: however often it is asked, the provider charges it once.
    wanted = {"cents": order.cents, "cardToken": order.card_token}
    try:
        await payment.put(("payments", order.id), json=wanted)
    except HttpFailed as failed:
        if failed.status == HTTPStatus.PAYMENT_REQUIRED:
            raise Permanent("the card was declined") from failed  # In words that a customer may read.
        raise


@charge.undo
async def refund(order: Order) -> None:
    await payment.delete(("payments", order.id), ok=(404,))  # nothing charged: nothing to refund


@app.workflow(recovery=Recovery(attempts=3, then="error"))
async def fulfil(order: Order) -> None:
    await charge(order)
