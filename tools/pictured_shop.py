"""The application in the pictures of the console: a shop that reserves, charges and ships what was ordered.

It stands alone: the server in the pictures imports a copy of it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from backstay import App, Checkpoint, Event, Message, Permanent, sleep, wait_for

FARES = {"truck": 4, "boat": 9}

app = App("shop")
stock = app.agent("stock", concurrency=20)
bank = app.agent("bank", concurrency=10)
carrier = app.agent("carrier", concurrency=20)
orders = app.stream("orders", partitions=3)
mails = app.queue("mails", max_messages=1_000)


@stock.step
async def reserve(order: str, item: str) -> str:
    await asyncio.sleep(0.15)
    return f"one {item} is kept for {order}"


@reserve.undo
async def release(order: str, item: str) -> None: ...


@bank.step
async def charge(order: str, customer: str) -> str:
    await asyncio.sleep(0.3)
    return f"{customer} has paid {order}"


@charge.undo
async def refund(order: str, customer: str) -> None: ...


@carrier.step
async def ship(order: str, city: str, fare: int) -> str:
    await asyncio.sleep(0.8)
    if city == "Atlantis":
        raise Permanent("no road leads to Atlantis")
    return f"{order} is on its way to {city} for {fare}"


@ship.undo
async def recall(order: str, city: str, fare: int) -> None: ...


@app.workflow
async def fulfil(order: str, customer: str, items: list[str], city: str, by: str) -> str:
    await asyncio.gather(*(reserve(order, item) for item in items))
    await charge(order, customer)
    if by not in FARES:
        raise ValueError(f"no price is known for {by}")
    if by == "boat":
        await wait_for("tide")
    await sleep("600ms")
    return await ship(order, city, FARES[by])


# Three groups read what was ordered, each at its own pace.


def is_whole(event: Event) -> bool:
    return "customer" in event.body


def as_ordered(event: Event) -> dict[str, Any]:
    return {**event.body, "order": event.key}


def as_mail(event: Event) -> dict[str, Any]:
    if not is_whole(event):
        raise Permanent("whose order is it?")
    return {"to": event.body["customer"], "about": event.key}


orders.source(group="scheduler").filter(is_whole).map(as_ordered).start(
    fulfil, id=lambda order: order["order"], attributes=lambda order: {"customer": order["customer"]}
).checkpoint(every=10, after="1s")
orders.source(group="mail").map(as_mail).send(mails).checkpoint(every=10, after="2s")


@app.consumer(mails, concurrency=2)
async def post(_message: Message) -> None:
    await asyncio.sleep(0.3)


@app.batch(orders, group="archive", max_events=5, max_wait="1s")
async def archive(events: list[Event], checkpoint: Checkpoint) -> None:
    # Slower than orders come, so that there is a lag to look at.
    await asyncio.sleep(len(events))
    await checkpoint()
