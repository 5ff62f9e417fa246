"""Deliveries by drones that an agent asks a service for, and how they fail."""

from __future__ import annotations

from typing import Any

import pytest

from backstay import App, HttpAgent, Recovery, Retry, TaskFailed, current_step
from tests.support.running import FAST, SOON

QUICK = Retry(attempts=4, first="1ms")


class Delivery:
    """A workflow of one step that schedules a drone, and its undo, which remembers what it was told."""

    def __init__(self, app: App, drone: HttpAgent, *, then: Any = "undo", **step: Any) -> None:
        self.undone: list[str | None] = []

        @drone.step(**step)
        async def schedule(delivery: str, expedited: bool = False) -> str:
            answer = await drone.put(("api", "drones", delivery), json={"expedited": expedited})
            return str(answer.json()["drone_id"])

        @schedule.undo
        async def cancel(delivery: str, expedited: bool) -> None:
            self.undone.append(current_step().outcome)
            await drone.delete(("api", "drones", delivery), ok=(404,))

        @app.workflow(recovery=Recovery(attempts=1, then=then))
        async def deliver(delivery: str) -> str:
            return await schedule(delivery)

        self.schedule = schedule
        self.deliver = deliver


async def error_of(app: App, url: str, workflow: Any, *input: Any) -> dict[str, Any]:
    """The error that a task of ``workflow`` stops with."""
    async with app.run(url, **FAST):
        handle = await app.submit(workflow, *input, id="t")
        with pytest.raises(TaskFailed) as failed:
            await handle.result(SOON)
    assert failed.value.error is not None
    return failed.value.error
