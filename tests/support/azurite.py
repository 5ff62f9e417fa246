"""Azurite, the vendor's own emulator of storage: installed once, beside the benches' peers, then kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.environment import HOME
from tests.support.ports import free_ports
from tests.support.storage_queue import ACCOUNT, KEY

VERSION = "3.35.0"
INSTALL_SECONDS_MAX = 600
START_SECONDS_MAX = 60


def npm() -> str | None:
    return shutil.which("npm")


def installed() -> Path:
    """The program. Whoever else needs it waits until it is there."""
    home = HOME / f"azurite-{VERSION}"
    home.mkdir(parents=True, exist_ok=True)
    (HOME / ".gitignore").write_text("*\n")
    with (HOME / "azurite.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            quietly = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error")
            command = [npm() or "npm", "install", *quietly, "--prefix", str(home), f"azurite@{VERSION}"]
            subprocess.run(command, check=True, timeout=INSTALL_SECONDS_MAX)
            (home / "complete").touch()
    return home / "node_modules" / ".bin" / "azurite-queue"


@contextmanager
def azurite() -> Iterator[str]:
    """Where the queues of its one account are, while it runs; ``{account}`` stands for that."""
    [port] = free_ports(1)
    where = ("--queueHost", "127.0.0.1", "--queuePort", str(port))
    how = ("--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry")
    accounts = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    with subprocess.Popen([installed(), *where, *how], stdout=subprocess.DEVNULL, env=accounts) as process:
        try:
            _wait_for(port, process)
            yield f"http://127.0.0.1:{port}/{{account}}"
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"azurite does not listen at {port}; its exit code is {process.poll()}")
