"""``backstay serve`` as a process of its own."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp


class Served:
    """``said``: that it runs, and where; ``before``: what it had logged by then."""

    def __init__(self, process: subprocess.Popen[str], said: str, before: Sequence[str]) -> None:
        self.process = process
        self.said = said
        self.before = before

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


def when_it_runs(process: subprocess.Popen[str], lines: Iterable[str]) -> Served:
    """Roles are at work a moment before it says so, and what they log may come first."""
    before: list[str] = []
    for line in lines:
        if line.startswith("backstay is running"):
            return Served(process, line.strip(), before)
        before.append(line.strip())
    raise AssertionError(f"it never said that it runs: {before}")


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
            yield when_it_runs(process, process.stderr)
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            assert process.wait(30) == 0
        finally:
            process.kill()
