"""The application: an agent around the payment provider, the workflow of an order, and the web in front."""

from __future__ import annotations

import os
import sqlite3

from backstay import App, Breaker, Recovery, Retry
from orders.order import Order
from orders.record import PAYMENT
from orders.web import web_application

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
    await payment.put(("payments", order.id), json={"cents": order.cents, "cardToken": order.card_token})


@charge.undo
async def refund(order: Order) -> None:
    await payment.delete(("payments", order.id), ok=(404,))  # nothing charged: nothing to refund


@app.workflow(recovery=Recovery(attempts=3, then="error"))
async def fulfil(order: Order) -> None:
    await charge(order)


def submit(connection: sqlite3.Connection, order: Order) -> None:
    """Have the order fulfilled, if and when the caller's transaction commits."""
    app.submit_in(connection, fulfil, order, id=order.id)


app.mount("/orders", web_application(app, submit))
