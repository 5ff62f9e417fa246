"""Alerts reach their sinks: at least once, under one key, whatever becomes of sinks and of the leader."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from backstay import App, Permanent, Recovery
from backstay.domain.alert import AlertKind
from backstay.errors import TaskFailed
from backstay.store.records import AlertFilter
from tests.support.databases import Database
from tests.support.ports import free_ports
from tests.support.receiver import Receiver, receiving
from tests.support.running import FAST, eventually, running

HERE: dict[str, Any] = {**FAST, "outbound_allow": "loopback"}


def shop() -> App:
    app = App("shop")
    bank = app.agent("bank")

    @bank.step
    async def charge(amount: int) -> None:
        raise Permanent("no cover")

    @app.workflow(recovery=Recovery(then="error"))
    async def order(amount: int) -> None:
        await charge(amount)

    return app


async def fail(app: App, client: Any, task_id: str = "o1") -> None:
    handle = await client.submit(app.registry.workflows["order", 1], 5, id=task_id)
    with pytest.raises(TaskFailed):
        await handle.result(timeout=10)


async def told(receiver: Receiver, number: int = 1) -> None:
    async def look() -> int:
        return len(receiver.got)

    await eventually(look, lambda found: found >= number, what="the receiver is told")


def untold(database: Database) -> int:
    [[number]] = database.rows("SELECT count(*) FROM alert WHERE told_at IS NULL")
    return int(number)


async def all_told(database: Database) -> None:
    async def look() -> int:
        return untold(database)

    await eventually(look, lambda number: number == 0, what="everybody is told")


async def test_an_alert_is_posted_as_the_interface_shows_it_signed_and_with_a_key(database: Database):
    app = shop()
    async with receiving() as receiver:
        options: dict[str, Any] = {"alert_webhook": receiver.url, "alert_webhook_secret": "s3cret"}
        async with running(app, database.store(), **HERE, **options) as client:
            await fail(app, client)
            await told(receiver)
            await all_told(database)
            [alert] = (await client.alerts(AlertFilter())).items

    [(headers, body)] = receiver.got
    assert json.loads(body) == json.loads(msgspec.json.encode(alert))
    assert (alert.kind, alert.task_id, alert.count) == (AlertKind.TASK_ERROR, "o1", 1)
    assert headers["Idempotency-Key"] == alert.key
    assert headers["Content-Type"] == "application/json"
    moment, given = (part.partition("=")[2] for part in headers["Backstay-Signature"].split(","))
    expected = hmac.new(b"s3cret", f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    assert given == expected


async def test_a_receiver_that_is_down_is_told_when_it_is_back_and_only_one_alert_is_kept(database: Database):
    app, [port] = shop(), free_ports(1)
    url = f"http://127.0.0.1:{port}/hook"
    async with running(app, database.store(), **HERE, alert_webhook=url) as client:
        await fail(app, client)

        async def tried() -> list[Any]:
            return database.rows("SELECT attempt, error FROM alert_delivery")

        [[attempt, error]] = await eventually(tried, bool, what="it is tried")
        assert (attempt >= 1, error) == (True, "could not connect")
        async with receiving(port) as receiver:
            await told(receiver)
            await all_told(database)
        assert len((await client.alerts(AlertFilter())).items) == 1
    assert len(set(receiver.keys)) == 1


@pytest.mark.parametrize("status", [500, 404, 302])
async def test_any_answer_but_a_good_one_is_told_again_under_the_same_key(database: Database, status: int):
    app = shop()
    async with receiving() as receiver:
        receiver.status, receiver.headers = status, {"Location": receiver.url}
        async with running(app, database.store(), **HERE, alert_webhook=receiver.url) as client:
            await fail(app, client)
            await told(receiver)
            receiver.status = 200
            await told(receiver, 2)
            await all_told(database)
    assert len(set(receiver.keys)) == 1


async def test_a_sink_that_hangs_holds_up_neither_another_nor_the_rounds(database: Database):
    app = shop()
    async with receiving() as stuck, receiving() as receiver:
        stuck.hangs = True
        options: dict[str, Any] = {"alert_webhook": f"{stuck.url}, {receiver.url}", "alert_timeout": "30s"}
        async with running(app, database.store(), **HERE, **options) as client:
            await fail(app, client, "o1")
            await told(stuck)
            await told(receiver)
            await fail(app, client, "o2")
            await told(receiver, 2)
            assert (await client.supervisor()).leader is not None
    assert [one["task_id"] for one in receiver.alerts] == ["o1", "o2"]


async def test_what_is_not_public_is_not_told_unless_it_is_allowed(database: Database):
    app = shop()
    async with receiving() as receiver:
        async with running(app, database.store(), **FAST, alert_webhook=receiver.url) as client:
            await fail(app, client)

            async def error() -> list[Any]:
                return database.rows("SELECT error FROM alert_delivery")

            [[said]] = await eventually(error, bool, what="it is tried")
        assert "not public" in said
    assert receiver.got == []


# Programs


def program(folder: Path, body: str) -> str:
    script = folder / "sink.py"
    script.write_text(body)
    return f"{sys.executable} {script}"


@pytest.mark.parametrize("flood", ["", "x" * 1_000_000])
async def test_a_program_gets_the_alert_on_its_input_and_none_of_our_secrets(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flood: str
):
    monkeypatch.setenv("BACKSTAY_TOKEN", "secret")
    out = tmp_path / "told.json"
    body = (
        "import json, os, sys\n"
        f"sys.stdout.write({flood!r} * 20); sys.stderr.write({flood!r} * 20)\n"
        f"json.dump([json.load(sys.stdin), dict(os.environ)], open({str(out)!r}, 'w'))\n"
    )
    app = shop()
    async with running(app, database.store(), **HERE, alert_command=program(tmp_path, body)) as client:
        await fail(app, client)
        await all_told(database)
        [alert] = (await client.alerts(AlertFilter())).items

    got, environment = json.loads(out.read_text())
    assert (got["kind"], got["task_id"], environment["ALERT_KEY"]) == ("task_error", "o1", alert.key)
    assert [name for name in environment if name.startswith("BACKSTAY_")] == []


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("import sys; sys.exit(3)", "ended with 3"),
        ("import time; time.sleep(60)", "did not end within 500ms"),
    ],
)
async def test_a_program_that_fails_or_hangs_is_ended_and_started_again(
    database: Database, tmp_path: Path, body: str, error: str
):
    pids = tmp_path / "pids"
    body = f"import os; open({str(pids)!r}, 'a').write(str(os.getpid()) + '\\n')\n{body}"
    app = shop()
    options: dict[str, Any] = {"alert_command": program(tmp_path, body), "alert_timeout": "500ms"}
    async with running(app, database.store(), **HERE, **options) as client:
        await fail(app, client)

        async def tried() -> list[Any]:
            return database.rows("SELECT attempt, error FROM alert_delivery WHERE attempt >= 2")

        [[_, said]] = await eventually(tried, bool, what="it is tried again")
    assert error in said
    for pid in map(int, pids.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_program_that_is_not_there_is_an_error_like_any_other(database: Database):
    app = shop()
    async with running(app, database.store(), **HERE, alert_command="/no/such/program") as client:
        await fail(app, client)

        async def tried() -> list[Any]:
            return database.rows("SELECT error FROM alert_delivery")

        [[said]] = await eventually(tried, bool, what="it is tried")
    assert said == "the command cannot be started: FileNotFoundError"


# The leader dies

APPLICATION = """
import asyncio, sys
from backstay import App, Permanent, Recovery

app = App("shop")
bank = app.agent("bank")

@bank.step
async def charge(amount: int) -> None:
    raise Permanent("no cover")

@app.workflow(recovery=Recovery(then="error"))
async def order(amount: int) -> None:
    await charge(amount)

async def main() -> None:
    async with app.run() as live:
        handle = await app.submit(order, 5, id="o1")
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_an_alert_whose_leader_was_killed_before_it_told_is_told_by_the_next(
    database: Database, tmp_path: Path
):
    """DESIGN promise 5: the sink hangs, so that the kill falls between the commit and the answer."""
    script = tmp_path / "shop.py"
    script.write_text(APPLICATION)
    async with receiving() as receiver:
        receiver.hangs = True
        settings = {**database.heir(), "store": database.url, "outbound_allow": "loopback"}
        settings |= {"alert_webhook": receiver.url, "supervisor_period": "50ms"}
        environment = {**os.environ, **{f"BACKSTAY_{name.upper()}": one for name, one in settings.items()}}
        process = await asyncio.create_subprocess_exec(sys.executable, str(script), env=environment)
        try:
            await told(receiver)
        finally:
            process.send_signal(signal.SIGKILL)
            await process.wait()
        assert untold(database) == 1

        receiver.hangs = False
        options = {**HERE, **database.heir(lease="2s"), "alert_webhook": receiver.url}
        async with running(shop(), database.store(), **options) as client:
            await told(receiver, 2)
            await all_told(database)
            assert len((await client.alerts(AlertFilter())).items) == 1
    assert len(set(receiver.keys)) == 1
