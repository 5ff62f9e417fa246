"""The process that gets killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

STOP_SECONDS: Final = 10
_WORDS_SHOWN: Final = 2_000


class ChildFailed(Exception):
    """The child ended although nobody killed it."""


class Child:
    """Runs the shop; one process after the other."""

    def __init__(self, store: str, log: Path, *, output: Path) -> None:
        self._command = [sys.executable, "-m", "examples.orders_demo.worker", store, str(log)]
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        with self._output.open("ab") as output:
            # A session of its own: Ctrl-C is for the parent, which then closes the pipe.
            self._process = subprocess.Popen(  # noqa: S603  The command is our own.
                self._command, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )

    def check(self) -> None:
        """Raises ChildFailed, with its last words, when it ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            words = self._output.read_text("utf-8", errors="replace")[-_WORDS_SHOWN:]
            raise ChildFailed(f"the child ended with {self._process.returncode}:\n{words}")

    def kill(self) -> None:
        """``kill -9``: no handler runs, nothing is flushed, nobody says goodbye."""
        if self._process is not None:
            self._process.kill()
            self._let_go()

    def stop(self) -> None:
        """Let it leave by itself; kill it only if it does not."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._let_go()

    def _let_go(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._process = None
