"""``python leash.py SECONDS COMMAND …``: run a command that ends when nobody holds its leash.

The leash is a pipe on standard input. However the holder ends, its end of the pipe is closed. The command
runs in a folder of its own, which goes with it, and so does every process that it started: a program need not
stop its servers.

Uses the standard library only, and is run as a file: it must not matter what can be imported where.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

EXIT_TOO_LONG = 124
EXIT_LET_GO = 125

_GONE_WITHIN_SECONDS = 2.0
_LOOK_EVERY_SECONDS = 0.02


def main() -> None:
    seconds, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        sys.exit(_run(command, folder, seconds=float(seconds)))


def _run(command: list[str], folder: str, *, seconds: float) -> int:
    # A session of its own makes a process group of the command and of all that it starts.
    leader = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, start_new_session=True)
    let_go = threading.Event()
    threading.Thread(target=_end_when_let_go, args=(leader.pid, let_go), daemon=True).start()
    try:
        code = leader.wait(seconds)
    except subprocess.TimeoutExpired:
        code = EXIT_TOO_LONG
    _end(leader.pid)
    leader.wait()
    _wait_until_gone(leader.pid)
    return EXIT_LET_GO if let_go.is_set() else code


def _end_when_let_go(group: int, let_go: threading.Event) -> None:
    # Not through sys.stdin: a thread that waits in it holds its lock, and the interpreter cannot end.
    while os.read(0, 1):
        pass
    let_go.set()
    _end(group)


def _end(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _wait_until_gone(group: int) -> None:
    """Nobody writes into the folder any more. Bounded: a dead process that nobody reaps is never gone."""
    deadline = time.monotonic() + _GONE_WITHIN_SECONDS
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(_LOOK_EVERY_SECONDS)


if __name__ == "__main__":
    main()
