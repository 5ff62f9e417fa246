"""What an agent tells of itself with every heartbeat: how its calls fare, and what its breaker did."""

from __future__ import annotations

import asyncio

from backstay import App, Breaker, Permanent, Retry, Transient
from backstay.views import AgentInstance
from tests.support.running import FAST, SOON, eventually

REPORTS = {**FAST, "heartbeat": "50ms"}


async def reported(app: App, calls: int) -> AgentInstance:
    """How the only agent stands in the only process, once so many of its calls have been told of."""

    async def look() -> AgentInstance | None:
        for agent in await app.operator.agents():
            assert agent.calls == agent.instances[0].calls, "there is one process"
            if agent.calls.number >= calls:
                return agent.instances[0]
        return None

    found = await eventually(look, bool, what=f"a report of {calls} calls")
    assert found is not None
    return found


async def test_calls_are_told_by_how_long_they_took(app: App, url: str):
    bank = app.agent("bank")

    @bank.step
    async def charge(seconds: float) -> None:
        await asyncio.sleep(seconds)

    @app.workflow
    async def order(seconds: float) -> None:
        await charge(seconds)

    async with app.run(url, **REPORTS):
        handles = [await app.submit(order, seconds) for seconds in [0.0] * 18 + [0.3] * 2]
        for handle in handles:
            await handle.result(SOON)
        calls = (await reported(app, 20)).calls

    assert (calls.number, calls.failed) == (20, 0)
    assert calls.p50_seconds is not None
    assert calls.p99_seconds is not None
    assert calls.p50_seconds < 0.25 < calls.p99_seconds


async def test_each_try_is_a_call_a_refusal_is_none_that_failed_and_undos_count(app: App, url: str):
    bank = app.agent("bank", retry=Retry(attempts=3, first="1ms"))
    tries = 0

    @bank.step
    async def charge() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Transient("busy")

    @charge.undo
    async def refund() -> None: ...

    @bank.step
    async def sign() -> None:
        raise Permanent("no")

    @app.workflow
    async def order() -> None:
        await charge()
        await sign()

    async with app.run(url, **REPORTS):
        handle = await app.submit(order, id="t")
        await eventually(handle.state, lambda state: state == "undone")
        calls = (await reported(app, 5)).calls

    assert (calls.number, calls.failed) == (5, 2)


async def test_a_call_without_an_answer_in_time_failed_and_took_all_of_it(app: App, url: str):
    bank = app.agent("bank", complete_by="1s", retry=Retry(attempts=1))

    @bank.step
    async def charge() -> None:
        await asyncio.sleep(60)

    @app.workflow
    async def order() -> None:
        await charge()

    async with app.run(url, **REPORTS):
        await app.submit(order)
        calls = (await reported(app, 1)).calls

    assert calls.failed == calls.number
    # By sizes: that of a second begins at 0.8.
    assert calls.p99_seconds is not None
    assert calls.p99_seconds > 0.79


async def test_the_breaker_tells_when_it_opened_and_closed_and_why(app: App, url: str):
    up = False
    bank = app.agent(
        "bank",
        retry=Retry(attempts=20, first="1ms", factor=1),
        breaker=Breaker(failures=3, within="10s", open_for="300ms"),
    )

    @bank.step
    async def charge() -> None:
        if not up:
            raise Transient("the bank is away" + "!" * 1_000)

    @app.workflow
    async def order() -> None:
        await charge()

    async with app.run(url, **REPORTS):
        handle = await app.submit(order)
        # Two openings: by three calls, and by a probe.
        opened = await reported(app, 4)
        up = True
        await handle.result(SOON)
        turns = (await reported(app, 5)).breaker_turns

    assert {turn.state for turn in opened.breaker_turns} <= {"open", "half_open"}
    assert [turn.state for turn in turns[:2]] == ["open", "half_open"]
    assert [turn.state for turn in turns[-2:]] == ["half_open", "closed"]
    assert [turn.failures for turn in turns if turn.state == "open"][:2] == [3, 1]
    assert (turns[0].error or "").startswith("Transient: the bank is away!")
    assert len(turns[0].error or "") == 200
    assert [turn.at for turn in turns] == sorted(turn.at for turn in turns)
