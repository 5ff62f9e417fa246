"""Processes that listen, until the context is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backstay.settings import PREFIX
from bench.streaming.apps import STREAM
from tests.support.ports import HOST, free_ports

ROOT: Final = Path(__file__).parents[2]

#: The gateway before ASGI, which is on unless it is turned off, and the way through ASGI.
FAST: Final = "fast lane"
NORMAL: Final = "normal lane"
#: What the fast lane does, as an ASGI application; and one that only appends.
PLAIN: Final = "plain ASGI"
BARE: Final = "bare ASGI"
OURS: Final = (FAST, NORMAL)
#: The ways of taking events in that there are.
LANES: Final = (*OURS, PLAIN, BARE)

_WITHOUT_LAYERS: Final = {PLAIN: "same", BARE: "bare"}

_RUNNING: Final = "backstay is running"
_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 60.0
_LOOK_EVERY_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Server:
    """``store`` and ``streams`` are URLs; there is no store behind a plain ASGI application."""

    port: int
    pid: int
    store: str
    streams: str

    @property
    def host(self) -> str:
        return HOST

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def stream_url(self) -> str:
        return f"http://{self.address}/v1/streams/{STREAM}"


@contextmanager
def serving(
    folder: Path, lane: str = NORMAL, *, app: str = "gateway", roles: str = "api", store: str | None = None
) -> Iterator[Server]:
    """One of LANES, with its files in ``folder``: an application of ``apps``, in these roles."""
    [port] = free_ports(1)
    streams = f"sqlite:///{folder.resolve()}/streams.db"
    store = store or f"sqlite:///{folder.resolve()}/store.db"
    if lane in _WITHOUT_LAYERS:
        command = ["bench.streaming.plain_asgi", _WITHOUT_LAYERS[lane], streams, str(port)]
        variables = {}
    else:
        target = f"bench.streaming.apps:{app}"
        command = ["backstay", "serve", target, "--store", store, "--port", str(port), "--roles", roles]
        is_fast = "true" if lane == FAST else "false"
        variables = {f"{PREFIX}STREAMS": streams, f"{PREFIX}FAST_LANE": is_fast}
    with _process(command, variables, said=folder / "server.log") as process:
        _wait_until_ready(process, port, folder / "server.log")
        yield Server(port, process.pid, store, streams)


@contextmanager
def beside(server: Server, folder: Path, *, app: str, roles: str) -> Iterator[None]:
    """Another process with the same store and streams, in other roles, which listens nowhere."""
    command = ["backstay", "serve", f"bench.streaming.apps:{app}", "--store", server.store, "--roles", roles]
    said = folder / "beside.log"
    with _process(command, {f"{PREFIX}STREAMS": server.streams}, said=said) as process:
        _wait_until_said(process, said)
        yield


@contextmanager
def _process(
    command: Sequence[str], variables: Mapping[str, str], *, said: Path
) -> Iterator[subprocess.Popen[bytes]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    environment |= {"PYTHONPATH": str(ROOT), **variables}
    with (
        said.open("wb") as output,
        subprocess.Popen([sys.executable, "-m", *command], env=environment, stderr=output) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, said: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/readyz", timeout=_START_SECONDS):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(_LOOK_EVERY_SECONDS)
    raise RuntimeError(f"the server did not come up: {said.read_text(errors='replace')[-2000:]}")


def _wait_until_said(process: subprocess.Popen[bytes], said: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if _RUNNING in said.read_text(errors="replace"):
            return
        time.sleep(_LOOK_EVERY_SECONDS)
    raise RuntimeError(f"the process did not come up: {said.read_text(errors='replace')[-2000:]}")
