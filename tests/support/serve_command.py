"""``backstay serve`` as a process of its own."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp


class Served:
    def __init__(self, process: subprocess.Popen[str], said: str) -> None:
        self.process = process
        self.said = said

    @property
    def url(self) -> str:
        return self.said.split(" on ")[1].split(" as ")[0]

    async def ask(
        self, method: str, path: str, *, tls: ssl.SSLContext | bool = True, **options: Any
    ) -> tuple[int, Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, ssl=tls, **options) as answer,
        ):
            return answer.status, await answer.json(content_type=None)


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "backstay", "serve", *options]


def environment(**more: str) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith("BACKSTAY_")}, **more}


@contextmanager
def serving(folder: Path, *options: str, under: Sequence[str] = (), **variables: str) -> Iterator[Served]:
    """A server that said it runs; it is stopped, and must stop well. ``variables`` are its environment's."""
    with subprocess.Popen(
        [*under, *command(*options, "--port", "0")],
        cwd=folder,
        env=environment(**variables),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            yield Served(process, process.stderr.readline().strip())
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            assert process.wait(30) == 0
        finally:
            process.kill()
