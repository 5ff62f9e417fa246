"""The services of the drone delivery, each a real process with a port and a file of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from drone_delivery.services.catalogue import SERVICES
from tests.support.ports import HOST, free_ports

#: Generous: a machine may be slow. Nobody waits longer than it takes.
PATIENCE_SECONDS = 20.0
_LOOK_EVERY_SECONDS = 0.02

_ROOT = Path(__file__).parents[2]


class Services:
    """Services that run, by name; each can be killed and started again on its port and its file."""

    def __init__(self, folder: Path, names: Iterable[str], *, told: str | None = None) -> None:
        self.folder = folder
        self._told = {} if told is None else {"BACKSTAY_URL": told}
        self.ports = dict(zip(names, free_ports(len(SERVICES)), strict=False))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        assert self._session is not None, "the services are stopped"
        return self._session

    @property
    def environment(self) -> dict[str, str]:
        """Where the services are, as their callers are told."""
        return {f"{name.replace('-', '_').upper()}_URL": self.url(name) for name in self.ports}

    def url(self, name: str) -> str:
        return f"http://{HOST}:{self.ports[name]}"

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text("utf-8")

    async def start(self, name: str) -> None:
        """Start a service that does not run, and come back when it answers."""
        self._launch(name)
        await self._answers(name)

    async def start_all(self) -> None:
        self._session = aiohttp.ClientSession()
        for name in self.ports:
            self._launch(name)
        for name in self.ports:
            await self._answers(name)

    async def kill(self, name: str) -> None:
        """``kill -9``; come back when it is dead."""
        await self._end(name, signal.SIGKILL)

    async def stop(self, name: str) -> int:
        """SIGTERM; come back with the exit code when it has stopped."""
        return await self._end(name, signal.SIGTERM)

    async def stop_all(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait(PATIENCE_SECONDS)
        if self._session is not None:
            await self._session.close()

    async def turn(self, name: str, **dial: Any) -> dict[str, Any]:
        """Replace the fault dial, by none without arguments; ``for_seconds`` stands for forSeconds."""
        content = {_camel(field): value for field, value in dial.items()}
        async with self.session.put(
            f"{self.url(name)}/faults", data=msgspec.json.encode(content)
        ) as response:
            body = await response.read()
            assert response.status == 200, body
        return msgspec.json.decode(body, type=dict[str, Any])

    def _launch(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command(name, port=self.ports[name], database=self.folder / f"{name}.db"),
                env={**child_environment(), **self._told},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def _answers(self, name: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await self._is_healthy(name):
                assert self._processes[name].poll() is None, f"{name} has ended:\n{self.log(name)}"
                await asyncio.sleep(_LOOK_EVERY_SECONDS)

    async def _is_healthy(self, name: str) -> bool:
        try:
            async with self.session.get(f"{self.url(name)}/healthz") as response:
                return response.status == 200
        except aiohttp.ClientConnectionError:
            return False

    async def _end(self, name: str, number: signal.Signals) -> int:
        process = self._processes.pop(name)
        process.send_signal(number)
        return await asyncio.to_thread(process.wait, PATIENCE_SECONDS)


@asynccontextmanager
async def services_running(
    folder: Path, names: Iterable[str] = SERVICES, *, told: str | None = None
) -> AsyncIterator[Services]:
    """Services with their files in ``folder``, all of them unless ``names`` says which."""
    services = Services(folder, names, told=told)
    try:
        await services.start_all()
        yield services
    finally:
        await services.stop_all()


def command(name: str, *, port: int, database: Path) -> list[str]:
    options = ["--port", str(port), "--database", str(database), "--seed", "7"]
    return [sys.executable, "-m", "drone_delivery.services", name, *options]


def child_environment() -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(_ROOT / "examples")}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
