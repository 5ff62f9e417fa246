"""The submission process: a message of the queue ``orders`` becomes the order's row and its task."""

from __future__ import annotations

from typing import Any

import msgspec

from backstay import Message, Permanent, Submission
from orders.order import Order
from orders.table import write
from orders.workflow import app, fulfil


@app.submission("orders")
async def accept(message: Message, connection: Any) -> Submission:
    """Row, task and the end of the message are one transaction: after a crash there are all, or none."""
    try:
        order = msgspec.convert(message.body, Order)
    except msgspec.ValidationError as error:
        raise Permanent(f"this is no order: {error}") from None
    await write(connection, order)
    reply_to = message.properties.get("reply_to")  # Whoever sent it says where it wants to hear of it.
    return Submission(fulfil, order, id=order.id, reply_to=None if reply_to is None else str(reply_to))
