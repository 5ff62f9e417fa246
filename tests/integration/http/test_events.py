"""Watching a task over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
import pytest

from backstay.api.lookouts import JOURNALS_PER_SECOND
from backstay.domain.access import Role
from backstay.domain.states import StepState, TaskState
from backstay.errors import StoreUnavailable
from backstay.testing.promises.holder import Holder
from backstay.testing.records import a_step
from backstay.web.watchers import BEAT_EVERY_SECONDS
from tests.integration.http.conftest import Serve, held
from tests.support.running import eventually
from tests.support.serving import Served

BODY = {"workflow": "anything"}


class Stream:
    """Reads one event after the other."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def block(self) -> list[str]:
        """The lines up to the next empty one; none at the end."""
        lines = []
        async with asyncio.timeout(5):
            while line := (await self.response.content.readline()).decode().rstrip("\n"):
                lines.append(line)
        return lines

    async def event(self) -> tuple[str, Any]:
        name, data = await self.block()
        return name.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: "))

    async def is_over(self) -> bool:
        return await self.block() == []


@asynccontextmanager
async def watching(served: Served, id: str = "t", *, token: str = "") -> AsyncIterator[Stream]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with served.session.get(f"{served.url}/v1/tasks/{id}/events", headers=headers) as response:
        assert response.status == 200, await response.text()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        assert response.headers["Cache-Control"] == "no-store"
        yield Stream(response)


async def test_first_comes_the_present_then_each_change_then_the_end(served: Served, alice: Holder):
    task = await held(served, alice)
    await alice.write(task, steps=[a_step(StepState.RUNNING)])

    async with watching(served) as stream:
        name, shown = await stream.event()
        assert (name, shown["id"], shown["state"]) == ("task", "t", "processing")
        assert not {"input", "output"} & set(shown)
        name, step = await stream.event()
        assert (name, step["key"], step["state"]) == ("step", "charge:1", "running")

        await alice.write(task, steps=[a_step(StepState.COMPLETED)])
        name, step = await stream.event()
        assert (name, step["state"], step["output"]) == ("step", "completed", 7)

        await alice.leave(task, TaskState.PROCESSED)
        name, shown = await stream.event()
        assert (name, shown["state"]) == ("task", "processed")
        assert await stream.event() == ("end", {"state": "processed"})
        assert await stream.is_over()


async def test_of_a_task_that_has_ended_the_stream_ends_at_once(served: Served):
    await served.put("/v1/tasks/t", BODY)
    await served.post("/v1/tasks/t/cancel")

    async with watching(served) as stream:
        assert (await stream.event())[1]["state"] == "cancelled"
        assert await stream.event() == ("end", {"state": "cancelled"})
        assert await stream.is_over()


async def test_a_task_that_stopped_may_go_on_and_the_stream_stays_open(served: Served, alice: Holder):
    task = await held(served, alice)

    async with watching(served) as stream:
        await stream.event()
        await alice.leave(task, TaskState.ERROR)
        assert (await stream.event())[1]["state"] == "error"

        await served.post("/v1/tasks/t/resubmit")
        assert (await stream.event())[1]["state"] == "pending"


class Reads:
    """Counts how often journals are read, and of which task."""

    def __init__(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: list[str] = []
        self._steps = served.store.steps
        monkeypatch.setattr(served.store, "steps", self)

    async def __call__(self, task_id: str) -> Any:
        self.of.append(task_id)
        return await self._steps(task_id)


async def test_a_task_is_looked_at_once_for_all_who_watch_it(
    served: Served, alice: Holder, monkeypatch: pytest.MonkeyPatch
):
    task = await held(served, alice)
    await alice.write(task, steps=[a_step(StepState.RUNNING)])
    reads = Reads(served, monkeypatch)

    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(watching(served)) for _ in range(10)]
        for stream in streams:
            assert [(await stream.event())[0] for _ in range(2)] == ["task", "step"]
        await asyncio.sleep(2)
        # Two a second, and what opening and closing took.
        assert len(reads.of) <= 8

        await alice.write(task, steps=[a_step(StepState.COMPLETED)])
        for stream in streams:
            assert (await stream.event())[1]["output"] == 7


async def test_only_so_many_journals_are_read_in_a_second(
    served: Served, alice: Holder, monkeypatch: pytest.MonkeyPatch
):
    names = [f"t{number}" for number in range(30)]
    for name in names:
        await served.put(f"/v1/tasks/{name}", BODY)
    reads = Reads(served, monkeypatch)

    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(watching(served, name)) for name in names]
        began = asyncio.get_running_loop().time()
        for stream in streams:
            assert (await stream.event())[0] == "task"
        await asyncio.sleep(2)
        seconds = asyncio.get_running_loop().time() - began

    assert set(reads.of) == set(names)
    assert len(reads.of) <= JOURNALS_PER_SECOND * (seconds + 1)


async def test_the_journal_of_a_task_that_stopped_is_not_read_again_before_it_goes_on(
    served: Served, alice: Holder, monkeypatch: pytest.MonkeyPatch
):
    task = await held(served, alice)
    await alice.leave(task, TaskState.ERROR)
    reads = Reads(served, monkeypatch)

    async with watching(served) as stream:
        await stream.event()
        await asyncio.sleep(1.2)
        assert reads.of == ["t"]

        async with watching(served) as second:
            assert (await second.event())[1]["state"] == "error"
        await served.post("/v1/tasks/t/resubmit")
        assert (await stream.event())[1]["state"] == "pending"


async def test_when_nobody_watches_any_more_nobody_looks(
    served: Served, alice: Holder, monkeypatch: pytest.MonkeyPatch
):
    await held(served, alice)
    reads = Reads(served, monkeypatch)
    async with watching(served) as stream:
        await stream.event()
        stream.response.close()

    async def lookouts() -> list[str]:
        return [one.get_name() for one in asyncio.all_tasks() if "lookout" in one.get_name()]

    await eventually(lookouts, lambda found: not found, what="the end of the lookout")
    before = len(reads.of)
    await asyncio.sleep(0.7)
    assert len(reads.of) == before


async def test_a_mistake_of_ours_ends_the_stream_and_is_logged(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    await served.put("/v1/tasks/t", BODY)

    async def fails(_task_id: str) -> None:
        raise RuntimeError("nobody thought of this")

    async with watching(served) as stream:
        await stream.event()
        monkeypatch.setattr(served.store, "task", fails)

        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.block()
    assert "a request failed" in caplog.text


async def test_a_sign_of_life_comes_now_and_then(served: Served):
    await served.put("/v1/tasks/t", BODY)

    async with watching(served) as stream:
        await stream.event()
        served.clock.pass_time(timedelta(seconds=BEAT_EVERY_SECONDS))

        assert await stream.block() == [": still here"]


async def test_only_so_many_may_watch_at_once(serve: Serve):
    async with serve(watchers_max=2) as served:
        await served.put("/v1/tasks/t", BODY)
        async with watching(served), watching(served) as second:
            third = await served.get("/v1/tasks/t/events")
            assert (third.status, third.problem) == (429, "too-many-watchers")
            assert third.headers["Retry-After"] == "5"
            second.response.close()

            async def free() -> int:
                return (await served.ask("HEAD", "/v1/tasks/t/events")).status

            await eventually(free, lambda status: status == 200, what="a free seat")


async def test_who_only_asks_for_the_head_holds_no_seat(serve: Serve):
    async with serve(watchers_max=1) as served:
        await served.put("/v1/tasks/t", BODY)

        for _ in range(3):
            answer = await served.ask("HEAD", "/v1/tasks/t/events")
            assert (answer.status, answer.body) == (200, b"")
            assert answer.headers["Content-Type"].startswith("text/event-stream")


async def test_a_store_that_is_away_for_a_moment_does_not_end_the_stream(served: Served, monkeypatch: Any):
    await served.put("/v1/tasks/t", BODY)

    async with watching(served) as stream:
        await stream.event()
        with monkeypatch.context() as away:

            async def fails(_task_id: str) -> None:
                raise StoreUnavailable("the disk is busy")

            away.setattr(served.store, "task", fails)
            await asyncio.sleep(1)
        await served.post("/v1/tasks/t/cancel")

        assert (await stream.event())[1]["state"] == "cancelled"


async def test_a_process_that_is_about_to_stop_lets_its_watchers_go(served: Served):
    await served.put("/v1/tasks/t", BODY)

    async with watching(served) as stream:
        await stream.event()
        served.health.draining = True

        assert await stream.is_over()


async def test_who_is_no_longer_let_in_watches_no_longer(served: Served):
    await served.put("/v1/tasks/t", BODY)

    async with watching(served) as unlocked:
        await unlocked.event()
        secret = await served.token("reader", Role.READ)
        assert await unlocked.is_over()

    async with watching(served, token=secret) as stream:
        await stream.event()
        await served.token("other", Role.READ)
        await served.client.revoke_token("reader")
        served.clock.pass_time(timedelta(seconds=1))
        assert await stream.is_over()
