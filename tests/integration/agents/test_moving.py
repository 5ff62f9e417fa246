"""A scheduler moves so many tasks at the same time; those that only wait do not count."""

from __future__ import annotations

import asyncio

import pytest

from backstay import App, sleep, wait_for
from backstay.scheduler import loop
from tests.support.running import FAST, SOON, eventually

TASKS = 10


@pytest.fixture(autouse=True)
def two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "BUSY_MAX", 2)


async def test_tasks_whose_services_take_their_time_are_all_under_way(app: App, url: str):
    gate, inside = asyncio.Event(), 0
    agent = app.agent("slow")

    @agent.step
    async def ask(number: int) -> int:
        nonlocal inside
        inside += 1
        await gate.wait()
        return number

    @app.workflow
    async def ask_twice(number: int) -> int:
        return await ask(await ask(number))

    async with app.run(url, **FAST):
        handles = [await app.submit(ask_twice, number) for number in range(TASKS)]
        await eventually(lambda: _now(inside), lambda seen: seen == TASKS, what="all at their service")
        gate.set()
        assert [await handle.result(SOON) for handle in handles] == list(range(TASKS))


async def test_tasks_that_stand_in_line_do_not_keep_others_from_being_claimed(app: App, url: str):
    gate, done = asyncio.Event(), []
    busy, free = app.agent("busy", concurrency=1), app.agent("free")

    @busy.step
    async def queue(number: int) -> int:
        await gate.wait()
        return number

    @free.step
    async def pass_by(number: int) -> int:
        done.append(number)
        return number

    @app.workflow
    async def stand_in_line(number: int) -> int:
        return await queue(number)

    @app.workflow
    async def walk_past(number: int) -> int:
        return await pass_by(number)

    async with app.run(url, **FAST):
        standing = [await app.submit(stand_in_line, number) for number in range(TASKS)]
        passing = [await app.submit(walk_past, number) for number in range(TASKS)]
        assert [await handle.result(SOON) for handle in passing] == list(range(TASKS))
        gate.set()
        assert [await handle.result(SOON) for handle in standing] == list(range(TASKS))

    assert sorted(done) == list(range(TASKS))


async def test_tasks_that_wait_in_memory_do_not_count_and_neither_do_those_that_left_it(app: App, url: str):
    @app.workflow
    async def nap(number: int) -> int:
        await sleep("300ms")
        return number

    @app.workflow
    async def hear(number: int) -> int:
        return number + await wait_for("go")

    async with app.run(url, **FAST):
        asked = [await app.submit(hear, number, id=f"hear-{number}") for number in range(TASKS)]
        napping = [await app.submit(nap, number) for number in range(TASKS)]
        assert [await handle.result(SOON) for handle in napping] == list(range(TASKS))
        for number in range(TASKS):
            await app.signal(f"hear-{number}", "go", 100)
        assert [await handle.result(SOON) for handle in asked] == [100 + number for number in range(TASKS)]


async def _now(number: int) -> int:
    return number
