"""Other processes on the same store: started, talked to, killed."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Each script is the body of a coroutine with an opened store, a clock and a few names at hand.
# It says "ready" when it is where the test wants it, and waits for a line before it goes on.
_FRAME = """
import asyncio, sys
from datetime import timedelta
from backstay.clock import SystemClock
from backstay.store.base import NewInstance, Runnable
from backstay.store.sqlite import SqliteStore
from backstay.testing.records import new_task

def ready():
    print("ready", flush=True)
    sys.stdin.readline()

async def main():
    clock = SystemClock()
    store = SqliteStore("sqlite:///" + sys.argv[1])
{before_opening}
    await store.open()
{body}
    await store.close()

asyncio.run(main())
"""


@contextmanager
def running(path: Path, body: str, *, before_opening: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that runs ``body`` on the store in ``path``; killed at the end if it is still there."""
    script = _FRAME.format(body=_indented(body), before_opening=_indented(before_opening))
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _indented(body: str) -> str:
    return textwrap.indent(textwrap.dedent(body), "    ")
