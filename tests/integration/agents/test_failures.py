"""Whatever a step raises is a failure of that step, told in words that can be kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from backstay import App, Permanent, Recovery, Retry, TaskFailed, Transient, current_step
from backstay.observe import log
from tests.support.running import FAST, ONCE, SOON, Down


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyError("typo"), True),
        (Transient("busy"), False),
        (Permanent("no"), False),
        (ConnectionResetError(), False),
        (TimeoutError(), False),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_where_a_step_raised_is_logged_once_it_is_given_up_unless_it_said_what_is_wrong(
    app: App, url: str, caplog: pytest.LogCaptureFixture, error: Exception, told: bool
):
    @app.agent("a", retry=Retry(attempts=2, first="1ms")).step
    async def broken() -> None:
        raise error

    @app.workflow(recovery=Recovery(attempts=1))
    async def run() -> None:
        await broken()

    with caplog.at_level(logging.WARNING, "backstay"):
        async with app.run(url, **FAST):
            handle = await app.submit(run, id="t")
            with pytest.raises(TaskFailed):
                await handle.result(SOON)

    lines = [one for one in caplog.records if one.getMessage() == "step broken:1 of task t raised"]
    assert [one.exc_info[1] for one in lines if one.exc_info] == ([error] if told else [])


async def test_a_body_that_raises_cancelled_error_itself_has_failed_like_any_other(app: App, url: str):
    calls: list[int] = []
    agent = app.agent("bank", retry=Retry(attempts=2, first="1ms"))

    @agent.step
    async def charge() -> str:
        calls.append(current_step().attempt)
        if len(calls) == 1:
            raise asyncio.CancelledError
        return "paid"

    @app.workflow
    async def order() -> str:
        return await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order)
        assert await handle.result(SOON) == "paid"

    assert calls == [1, 1]


@pytest.mark.parametrize("error", [StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_whatever_a_thread_step_raises_is_a_failure_and_frees_its_slot(
    app: App, url: str, error: type[BaseException]
):
    calls: list[int] = []
    agent = app.agent("bank", complete_by="5s", retry=Retry(attempts=2, first="1ms"), concurrency=1)

    @agent.step
    def charge() -> str:
        calls.append(current_step().attempt)
        if len(calls) == 1:
            raise error
        return "paid"

    @app.workflow
    async def order() -> str:
        return await charge()

    async with app.run(url, **FAST):
        first = await app.submit(order)
        assert await first.result(2) == "paid"
        second = await app.submit(order)
        assert await second.result(2) == "paid"

    assert calls == [1, 1, 1]


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words for it")


@pytest.fixture
def silent_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pytest captures must be text that it can pass on."""
    monkeypatch.setattr(log, "disabled", True)


@pytest.mark.usefixtures("silent_log")
@pytest.mark.parametrize("where", ["step", "workflow"])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Unreadable, "its message cannot be read"),
        (lambda: Down("half a pair: \ud800"), "half a pair: ?"),
        (lambda: Down("x" * 1_000_000), "x" * 1_999 + "…"),
        (Down, "Down()"),
    ],
    ids=["unreadable", "surrogate", "long", "silent"],
)
async def test_whatever_an_error_says_of_itself_it_can_be_recorded(
    app: App, url: str, where: str, error: Callable[[], Exception], message: str
):
    agent = app.agent("bank", retry=ONCE)

    @agent.step
    async def charge() -> None:
        raise error()

    @app.workflow(recovery=Recovery(attempts=1, then="error"))
    async def order() -> None:
        if where == "workflow":
            raise error()
        await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order)
        with pytest.raises(TaskFailed) as failed:
            await handle.result(5)

    assert failed.value.error is not None
    assert failed.value.error["message"] == message


async def test_a_step_that_calls_sys_exit_has_failed_and_ends_nobody_else(app: App, url: str):
    """It would end the process gracefully, again at every start, and no crash would ever be counted."""
    calls: list[int] = []
    agent = app.agent("bank", retry=Retry(attempts=2, first="1ms"))

    @agent.step
    async def charge() -> str:
        calls.append(current_step().attempt)
        if len(calls) == 1:
            raise SystemExit(3)
        return "paid"

    @app.workflow
    async def order() -> str:
        return await charge()

    async with app.run(url, **FAST):
        handle = await app.submit(order)
        assert await handle.result(SOON) == "paid"

    assert calls == [1, 1]
