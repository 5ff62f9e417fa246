"""What is handed in, and what comes out, is in no line of the log, at whatever level and in either form."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pydantic
import pytest

from backstay import App, Message, Submission, sleep
from backstay.cli.logs import JsonLines
from backstay.client import Client
from backstay.store.records import AlertFilter
from tests.support.databases import Database
from tests.support.ingesting import STREAM, at
from tests.support.running import FAST, ONCE, SOON, ends, eventually, running
from tests.support.serving import serving

#: In everything that somebody hands in here, and in everything that is given back.
SECRET = "4929-1234"


class Card(pydantic.BaseModel):
    number: str
    year: int


def shop() -> App:
    """An application that is called well and badly; what it says itself when it fails holds no value."""
    app = App("shop")
    bank = app.agent("bank", retry=ONCE)
    app.queue("orders", max_deliveries=1)
    app.queue("letters", max_deliveries=1)

    @bank.step
    async def charge(card: str) -> str:
        return card

    @bank.step
    async def count(card: str) -> int:
        # A result that does not fit what was declared.
        result: Any = card
        return result

    @app.workflow
    async def order(card: str) -> str:
        await sleep("1ms")
        return await charge(card)

    @app.workflow
    async def miscounted(card: str) -> int:
        return await count(card)

    @app.workflow
    async def modelled(card: Card) -> str:
        return card.number

    @app.workflow
    async def mistaken(card: str) -> str:
        raise LookupError("no such customer")

    @app.submission("orders")
    async def accept(message: Message, _connection: object) -> Submission:
        # What is no submission at all is refused as well, and so is what fits no workflow.
        if message.id == "modelled":
            return Submission(modelled, message.body)
        return Submission(order, message.body, id=message.id) if message.id == "good" else message.body

    @app.consumer("letters")
    async def read(message: Message) -> None:
        raise LookupError("no such reader")

    app.stream(STREAM, partitions=1).source(group="g").map(lambda event: event.body).start(
        order, id=lambda _: "by-event"
    )
    return app


async def test_no_value_comes_into_the_log_whether_all_is_well_or_not(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    app, store = shop(), database.store()
    async with running(app, database.store(), **FAST, **at(tmp_path)) as client:
        for workflow in ("order", "miscounted", "mistaken"):
            await client.submit(workflow, SECRET, id=workflow)
        for name, body in {"good": SECRET, "bad": {"card": SECRET}}.items():
            await client.queue("orders").send(body, id=name)
            await client.stream(STREAM).append(body)
        await client.queue("orders").send({"number": SECRET, "year": SECRET}, id="modelled")
        await client.queue("letters").send(SECRET)
        await store.open()
        async with serving(store, app.registry) as server:
            wrong = {"workflow": "order", "input": {"card": SECRET}, "id": "wrong"}
            assert (await server.post("/v1/tasks", wrong)).status == 422
            assert (
                await server.post("/v1/tasks", data=f"{{{SECRET}", Content_Type="application/json")
            ).status == 400
        await store.close()
        for name in ("order", "good", "by-event"):
            assert await client.handle(name).result(SOON) == SECRET
        for name in ("miscounted", "mistaken"):
            assert (await ends(client, name)).state in ("error", "undone")
        await eventually(lambda: alerts(client), lambda kinds: kinds >= {"dead_letter", "quarantine"})
        await eventually(lambda: dead(client), lambda reasons: len(reasons) == 2)
        [said] = [reason for reason in await dead(client) if "modelled" in reason]
    assert "unable to parse string as an integer - at `year`" in said

    lines = [record.getMessage() + JsonLines().format(record) for record in caplog.records]
    assert any("LookupError: no such customer" in line for line in lines), "it does tell what happened"
    assert [line for line in lines if SECRET in line] == []


async def dead(client: Client) -> list[str]:
    """Why messages were set aside."""
    return [str(one.reason) for one in (await client.mailroom.dead_letters("orders")).items]


async def alerts(client: Client) -> set[str]:
    return {str(one.kind) for one in (await client.alerts(AlertFilter())).items}
