"""An application that sets events and messages aside wherever a test of the console needs some."""

from __future__ import annotations

from backstay import App, Event, Message, Permanent, Retry

app = App("depot")
parcels = app.stream("parcels", partitions=2)
orders = app.queue("orders")
drafts = app.queue("drafts", max_messages=1_000)
prices = app.topic("prices")
euros = prices.subscription("euros", where={"currency": "EUR"})

tried: set[str] = set()


async def load(event: Event) -> None:
    check(str(event.key), event.body)


@app.consumer(orders)
async def pack(message: Message) -> None:
    check(message.id, message.body)


def check(name: str, body: dict[str, str]) -> None:
    """What ``fails`` raises for that, the first time."""
    if "fails" in body and name not in tried:
        tried.add(name)
        raise Permanent(body["fails"])


parcels.source(group="depot").via(load, retry=Retry(attempts=1)).checkpoint(every=1, after="100ms")
