"""``python -m bench.resident MODE URL TASKS``: a process that weighs itself, with tasks where MODE says.

in_flight   tasks in a step that waits
parked      tasks in a sleep of thirty days
beside      none: a few come and go; what else is in the store is pending, and held back
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from backstay import App, Handle, sleep

#: The workflow that is held back, see ``held_app``.
HELD: Final = "held"

# Before the first look, so that what every process needs once is not counted.
WARM_UP_TASKS: Final = 100
# Submitted at a time: tasks that are parked must not be weighed with the crowd in which they came.
WAVE_TASKS: Final = 500

_COMPLETE_BY: Final = "1h"
_LOOK_EVERY_SECONDS: Final = 0.02
_PATIENCE_SECONDS: Final = 600.0


class Resident(msgspec.Struct, frozen=True):
    """Bytes of memory that the process held, before its tasks came and with them."""

    before: int
    after: int


async def in_flight(url: str, tasks: int) -> Resident:
    app = App("bench")
    agent = app.agent("service", complete_by=_COMPLETE_BY)
    arrived = asyncio.Semaphore(0)

    @agent.step
    async def wait() -> None:
        arrived.release()
        await asyncio.Event().wait()

    @app.workflow(complete_by=_COMPLETE_BY)
    async def blocked() -> None:
        await wait()

    async def weigh_with(more: int) -> int:
        for wave in _waves(more):
            await _submit(app, "blocked", wave)
        for _ in range(more):
            await arrived.acquire()
        return _resident_bytes()

    async with app.run(store=url, in_flight=WARM_UP_TASKS + tasks):
        before = await weigh_with(WARM_UP_TASKS)
        return Resident(before, await weigh_with(tasks))


async def parked(url: str, tasks: int) -> Resident:
    app = App("bench")

    @app.workflow
    async def asleep() -> None:
        await sleep("30d")

    async def weigh_with(more: int) -> int:
        for wave in _waves(more):
            for task in await _submit(app, "asleep", wave):
                await _until_it_waits(task)
        return _resident_bytes()

    async with app.run(store=url):
        # A whole wave, so that the memory of a crowd was in use before the first look, too.
        before = await weigh_with(WAVE_TASKS)
        return Resident(before, await weigh_with(tasks))


async def beside(url: str, _tasks: int) -> Resident:
    app = held_app()
    before = _resident_bytes()
    async with app.run(store=url):
        for task in await _submit(app, "passing", WARM_UP_TASKS):
            await task.result()
        return Resident(before, _resident_bytes())


def held_app() -> App:
    """One workflow to be held back, and one whose tasks come and go."""
    app = App("bench")

    @app.workflow
    async def held(number: int) -> int:
        return number

    @app.workflow
    async def passing() -> None: ...

    return app


MODES: Final[dict[str, Callable[[str, int], Coroutine[Any, Any, Resident]]]] = {
    "in_flight": in_flight,
    "parked": parked,
    "beside": beside,
}


def main() -> None:
    mode, url, tasks = sys.argv[1:]
    found = uvloop.run(_in_time(MODES[mode](url, int(tasks))))
    print(msgspec.json.encode(found).decode())


async def _in_time(work: Coroutine[Any, Any, Resident]) -> Resident:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        return await work


def _waves(tasks: int) -> list[int]:
    """How many come in each wave, if so many come altogether."""
    whole, rest = divmod(tasks, WAVE_TASKS)
    return [WAVE_TASKS] * whole + [rest] * bool(rest)


async def _submit(app: App, workflow: str, number: int) -> list[Handle]:
    return await asyncio.gather(*(app.submit(workflow) for _ in range(number)))


async def _until_it_waits(task: Handle) -> None:
    while await task.state() != "waiting":  # noqa: ASYNC110  Nobody tells when a task is parked.
        await asyncio.sleep(_LOOK_EVERY_SECONDS)


def _resident_bytes() -> int:
    gc.collect()
    status = Path("/proc/self/status")
    if not status.exists():
        # Elsewhere than on Linux: the most that there ever was, in bytes on macOS.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    [size] = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmRSS:")]
    return int(size) * 1024


if __name__ == "__main__":
    main()
