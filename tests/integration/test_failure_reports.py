"""A workflow may say who is told when a task of it fails for good, and it is told with that very commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backstay import App, Permanent, Recovery, TaskFailure
from backstay.errors import InvalidDefinition
from tests.support.crashes import SqliteCrashes
from tests.support.databases import SqliteDatabase
from tests.support.running import FAST, ends, running, until


class Courier:
    """A workflow of two steps, the second of which fails for good, and who is told."""

    def __init__(self, *, then: Any = "undo") -> None:
        self.app = app = App("courier")
        self.desk = app.queue("failed")
        carrier = app.agent("carrier")
        self.undone: list[str] = []
        self.breaks = False

        @carrier.step
        async def pack(article: str, pieces: int) -> None: ...

        @pack.undo
        async def unpack(article: str, pieces: int) -> None:
            self.undone.append(article)

        @carrier.step
        async def carry(article: str) -> None:
            raise Permanent(f"the {article} is too heavy")

        @app.workflow(recovery=Recovery(then=then))
        async def deliver(article: str, pieces: int = 1) -> None:
            await pack(article, pieces)
            await carry(article)

        @deliver.on_failure(self.desk)
        def report(article: str, pieces: int, *, failure: TaskFailure) -> dict[str, Any]:
            if self.breaks:
                raise KeyError(article)
            return {"what": f"{pieces} {article}", "who": failure.agent, "why": failure.message}

        self.deliver = deliver


TOLD = {"what": "1 anvil", "who": "carrier", "why": "the anvil is too heavy"}


async def told(app: App) -> list[Any]:
    return [message.body for message in await app.queue("failed").receive(max=10)]


async def test_who_is_to_be_told_is_told_once_wherever_the_process_dies(sqlite_database: SqliteDatabase):
    """DX-04: the report is in the commit that records the failure; there is no moment between them."""
    courier, crashes = Courier(), SqliteCrashes(sqlite_database)
    async with running(courier.app, crashes.store()) as client:
        await client.submit(courier.deliver, "anvil", id="t")
        await until(client, "t", "undone")

    looked = "SELECT count(*) FROM message WHERE id LIKE 't:failure:%'"
    states = "SELECT state FROM task WHERE id = 't'"
    failed = ("undoing", "undone")
    for crash in crashes.copies:
        [(state,)], [(messages,)] = crash.rows(states), crash.rows(looked)
        assert messages == (state in failed), f"{messages} messages, and the task is {state}"

    for crash in crashes.copies:
        resumed = Courier()
        async with running(resumed.app, crash.store()) as client:
            assert (await ends(client, "t")).state == "undone"
            assert [one.body for one in await client.queue("failed").receive(max=10)] == [TOLD]


async def test_a_task_that_stops_in_error_is_told_of_and_again_when_it_fails_again(
    sqlite_database: SqliteDatabase,
):
    courier = Courier(then="error")
    async with courier.app.run(sqlite_database.url, **FAST) as app:
        await app.submit(courier.deliver, "anvil", 3, id="t")
        await until(app, "t", "error")
        assert await told(app) == [TOLD | {"what": "3 anvil"}]

        await app.resubmit("t")
        [again] = await app.queue("failed").receive(wait="10s")
        assert again.body == TOLD | {"what": "3 anvil"}


async def test_what_an_operator_asks_for_is_no_failure(sqlite_database: SqliteDatabase):
    courier = Courier(then="wait")
    async with courier.app.run(sqlite_database.url, **FAST) as app:
        await app.submit(courier.deliver, "anvil", id="t")
        await until(app, "t", "waiting")

        await app.cancel("t")

        await until(app, "t", "undone")
        assert await told(app) == []


async def test_a_report_that_raises_holds_up_nothing(
    sqlite_database: SqliteDatabase, caplog: pytest.LogCaptureFixture
):
    courier = Courier()
    courier.breaks = True
    async with courier.app.run(sqlite_database.url, **FAST) as app:
        await app.submit(courier.deliver, "anvil", id="t")

        assert (await ends(app, "t")).state == "undone"

        assert await told(app) == []
    assert courier.undone == ["anvil"]
    assert "the failure of task t was not reported" in caplog.text


def test_what_cannot_work_is_refused_when_it_is_declared(tmp_path: Path):
    app = App("courier")

    @app.workflow
    async def deliver(article: str) -> None: ...

    with pytest.raises(InvalidDefinition, match="must take the workflow's arguments and failure"):
        deliver.on_failure("failed")(lambda piece, failure: None)
    deliver.on_failure("failed")(lambda article, failure: None)
    with pytest.raises(InvalidDefinition, match="reports its failures already"):
        deliver.on_failure("failed")(lambda article, failure: None)
    with pytest.raises(InvalidDefinition, match="which is not declared"):
        app.registry.check()
