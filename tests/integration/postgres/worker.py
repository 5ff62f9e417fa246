"""A process that runs an application, and says at its end what it counted.

Its bodies write down what they did in a file that outlives the process, so that nobody has to
believe the store: the effects are counted by themselves.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from backstay import App, Recovery, current_step, sleep
from backstay.clock import SystemClock
from backstay.observe import counters
from tests.support.running import eventually


class Effects:
    """An append-only file with one line per effect: the step's key, and who did it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, key: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{key} {os.getpid()}\n")

    def keys(self, task_id: str = "", *, by: int | None = None) -> list[str]:
        """What was done, in order; for one task, by one process, or all of it."""
        if not self._path.exists():
            return []
        lines = [line.split() for line in self._path.read_text().splitlines()]
        found = [key for key, pid in lines if by is None or int(pid) == by]
        return [key for key in found if key.startswith(task_id)]


def workload(effects: Effects, *, seconds: float = 0.0) -> App:
    """Two steps, each of which takes ``seconds`` once it had its effect."""
    app = App("workload")
    agent = app.agent("agent", concurrency=1_000)

    @agent.step
    async def first() -> None:
        effects.add(current_step().idempotency_key)
        await asyncio.sleep(seconds)

    @agent.step
    async def second() -> None:
        effects.add(current_step().idempotency_key)
        await asyncio.sleep(seconds)

    @app.workflow(recovery=Recovery(crashes=1_000))
    async def work() -> None:
        await first()
        await second()

    @app.workflow
    async def nap(length: str) -> None:
        await sleep(length)

    return app


class Worker:
    """A process of its own that runs the workload until it is asked to stop."""

    def __init__(
        self, url: str, folder: Path, *, seconds: float = 0.0, ahead_seconds: float = 0.0, **options: Any
    ) -> None:
        settings = {"lease": "1s", "heartbeat": "300ms", "supervisor_period": "100ms", **options}
        given = {
            "url": url,
            "effects": str(folder / "effects"),
            "seconds": seconds,
            "ahead_seconds": ahead_seconds,
            "settings": settings,
        }
        self._report = folder / f"report-{id(self)}"
        # It stops when its input ends: also when the tests are gone.
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, json.dumps(given), str(self._report)], stdin=subprocess.PIPE
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()

    def stall(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def counted(self, event: str) -> int:
        """How often ``event`` happened in it so far."""
        return int(json.loads(self._report.read_text()).get(event, 0)) if self._report.exists() else 0

    async def stop(self) -> Mapping[str, int]:
        """Ask it to leave; what it counted."""
        assert self._process.stdin is not None
        self._process.stdin.close()

        async def left() -> int | None:
            return self._process.poll()

        assert await eventually(left, lambda code: code is not None, what="the end of a worker") == 0
        counted: dict[str, int] = json.loads(self._report.read_text())
        return counted


# Inside the process


async def _work(given: dict[str, Any], report: Path) -> None:
    app = workload(Effects(Path(given["effects"])), seconds=given["seconds"])
    async with app.run(given["url"], **given["settings"]):
        over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        while not over.done():
            _write(report)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(over), 0.1)
    _write(report)


def _write(report: Path) -> None:
    written = report.with_suffix(".new")
    written.write_text(json.dumps(counters))
    written.rename(report)


def _set_clocks_ahead(seconds: float) -> None:
    """As if the clock of this machine were wrong."""
    true = SystemClock.now

    def wrong(clock: SystemClock) -> datetime:
        return true(clock) + timedelta(seconds=seconds)

    SystemClock.now = wrong  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    _given = json.loads(sys.argv[1])
    _set_clocks_ahead(_given["ahead_seconds"])
    asyncio.run(_work(_given, Path(sys.argv[2])))
