"""The services and Backstay's own processes: started, killed, started again, stopped."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp

from drone_delivery.addresses import DEFAULT_PORTS, url_variable
from drone_delivery.demo.plan import Plan
from drone_delivery.demo.ports import HOST

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 15.0
#: When nobody wants to wait.
HURRY_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.05
_LAST_WORDS_BYTES: Final = 2_000

SERVER: Final = "server"
#: The service that hears of what failed; not the role of the same name, which each worker has.
SUPERVISOR: Final = "supervisor"
#: Two, so that what one leaves when it is killed is taken up by the other at once.
WORKERS: Final = ("worker-1", "worker-2")


class ProcessFailed(Exception):
    """A process ended, or did not come up, although nobody killed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to start a process, and where it says that it is up; ``None`` if it listens nowhere."""

    name: str
    command: Sequence[str]
    health: str | None


class Process:
    """One process after the other, all of one name."""

    def __init__(self, recipe: Recipe, *, environment: Mapping[str, str], log: Path) -> None:
        self.recipe = recipe
        self._environment = environment
        self._log = log
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.recipe.name

    @property
    def pid(self) -> int | None:
        return None if self._running is None else self._running.pid

    def start(self) -> None:
        with self._log.open("ab") as log:
            # A session of its own: Ctrl-C is for the demo, which then lets the others finish.
            self._running = subprocess.Popen(  # noqa: S603  The command is our own.
                # -P: what lies about in the folder where the demo is started is not part of it.
                [sys.executable, "-P", "-m", "drone_delivery.demo.leash", *self.recipe.command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )

    def check(self) -> None:
        """Raises ProcessFailed, with its last words, when it ended by itself."""
        if self._running is not None and self._running.poll() is not None:
            code = self._running.returncode
            raise ProcessFailed(f"{self.name} ended with {code}; it last said: {self._last_words()}")

    def _last_words(self) -> str:
        with self._log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
            said = log.read().decode("utf-8", errors="replace").strip()
        return said.rpartition("\n")[2] or "nothing"

    def kill(self) -> int | None:
        """``kill -9``: no handler runs, nothing is flushed, nobody says goodbye. Its id comes out.

        Raises ProcessFailed when it had ended by itself.
        """
        self.check()
        pid = self.pid
        if self._running is not None:
            self._running.kill()
            self._let_go()
        return pid

    def ask_to_stop(self) -> None:
        if self._running is not None:
            self._running.terminate()

    def wait_until_stopped(self, deadline: float) -> None:
        """Until then; after that it is killed."""
        if self._running is None:
            return
        try:
            self._running.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            self._running.kill()
        self._let_go()

    def _let_go(self) -> None:
        assert self._running is not None
        assert self._running.stdin is not None
        self._running.stdin.close()
        self._running.wait()
        self._running = None


class Processes:
    """All of them; stopped at the latest when the context is left."""

    def __init__(self, recipes: Iterable[Recipe], *, environment: Mapping[str, str], folder: Path) -> None:
        self.folder = folder
        self._all = [
            Process(recipe, environment=environment, log=folder / f"{recipe.name}.log") for recipe in recipes
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop(within_seconds=STOP_SECONDS if kind is None else HURRY_SECONDS)

    def __iter__(self) -> Iterator[Process]:
        return iter(self._all)

    def check(self) -> None:
        """Raises ProcessFailed when one of them ended by itself."""
        for process in self:
            process.check()

    async def start(self, session: aiohttp.ClientSession) -> None:
        """Start all of them, and wait until each is up. Raises ProcessFailed."""
        for process in self:
            process.start()
        for process in self:
            await self.up(process, session)

    async def up(self, process: Process, session: aiohttp.ClientSession) -> None:
        """Wait until it answers. Raises ProcessFailed when it does not, or ends instead."""
        try:
            async with asyncio.timeout(START_SECONDS):
                while True:
                    # First: at the port of one that could not take it, somebody else answers.
                    process.check()
                    if await _answers(process.recipe.health, session):
                        return
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            raise ProcessFailed(f"{process.name} is not up after {START_SECONDS:.0f} s") from None

    def _stop(self, *, within_seconds: float) -> None:
        """Ask all of them at once; kill those that do not leave."""
        for process in self:
            process.ask_to_stop()
        deadline = time.monotonic() + within_seconds
        for process in self:
            process.wait_until_stopped(deadline)


class DemoProcesses(Processes):
    """Those of the demo, at ``ports``: the first is the server's."""

    def __init__(self, ports: Sequence[int], *, plan: Plan) -> None:
        port, *others = ports
        self.server_url = f"http://{HOST}:{port}"
        self.service_ports = dict(zip(DEFAULT_PORTS, others, strict=True))
        self.service_urls = {name: f"http://{HOST}:{other}" for name, other in self.service_ports.items()}
        # Not on a command line, where everybody on the machine could read the store's password.
        environment = {
            # How breakers stand is told with every heartbeat: often enough to be watched.
            "BACKSTAY_HEARTBEAT": os.environ.get("BACKSTAY_HEARTBEAT", "1s"),
            "BACKSTAY_STORE": plan.store,
            "BACKSTAY_STREAMS": plan.streams,
            # Where the delivery service tells what happens.
            "BACKSTAY_URL": self.server_url,
            **{url_variable(name): url for name, url in self.service_urls.items()},
        }
        recipes = [*_services(self.service_ports, plan.folder), *_backstays(port)]
        super().__init__(recipes, environment=environment, folder=plan.folder)


async def _answers(url: str | None, session: aiohttp.ClientSession) -> bool:
    if url is None:
        return True
    try:
        async with session.get(url) as answer:
            return answer.ok
    except (aiohttp.ClientError, TimeoutError):
        return False


def _services(ports: Mapping[str, int], folder: Path) -> Iterator[Recipe]:
    for name, port in ports.items():
        where = ["--port", str(port), "--database", str(folder / f"{name}.db")]
        yield Recipe(
            name=name,
            command=["drone_delivery.services", name, *where],
            health=f"http://{HOST}:{port}/healthz",
        )


def _backstays(port: int) -> Iterator[Recipe]:
    serve = ["backstay", "serve", "drone_delivery.app:app"]
    front = ["backstay", "serve", "drone_delivery.demo.server:app"]
    listening = ["--roles", "api", "--host", HOST, "--port", str(port)]
    yield Recipe(name=SERVER, command=[*front, *listening], health=f"http://{HOST}:{port}/readyz")
    for name in WORKERS:
        roles = "ingest,scheduler,agents,supervisor"
        yield Recipe(name=name, command=[*serve, "--roles", roles], health=None)
    attend = ["backstay", "serve", "drone_delivery.supervisor:app", "--roles", "ingest"]
    yield Recipe(name=SUPERVISOR, command=attend, health=None)
