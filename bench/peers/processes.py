"""A command whose lines are read here, and which ends with us: on Ctrl-C, on an exception, on ``kill -9``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from bench.peers.leash import EXIT_TOO_LONG

_LEASH = Path(__file__).with_name("leash.py")
_SAID_BYTES_MAX = 4000
_SAID_LINES_MAX = 3
_SAID_LINE_CHARACTERS_MAX = 200


class CommandFailed(Exception):
    """``str()`` says which command, how it ended, and the last it said."""


def lines(
    command: Sequence[str | Path], *, seconds: float, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Each line that the command prints, as it comes. Raises CommandFailed, also after ``seconds``.

    It runs in a folder of its own. With the command, or with the reader, all that it started ends, and the
    folder goes.
    """
    words = [str(word) for word in command]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            [sys.executable, "-P", _LEASH, str(seconds), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env=os.environ | dict(environment or {}),
            start_new_session=True,  # a Ctrl-C is for us, who let go of the leash
        ) as leash,
    ):
        assert leash.stdout is not None
        yield from leash.stdout
        if (code := leash.wait()) != 0:
            raise CommandFailed(_explanation(words, code, seconds=seconds, last_words=_tail(said)))


def run(command: Sequence[str | Path], *, seconds: float) -> None:
    """Run to the end; what it prints is not wanted. Raises CommandFailed."""
    for _ in lines(command, seconds=seconds):
        pass


def _explanation(words: Sequence[str], code: int, *, seconds: float, last_words: str) -> str:
    how = f"took longer than {seconds:.0f} s" if code == EXIT_TOO_LONG else f"ended with {code}"
    return f"{' '.join([Path(words[0]).name, *words[1:]])} {how}: {last_words or 'it said nothing'}"


def _tail(said: IO[bytes]) -> str:
    said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID_BYTES_MAX))
    all_lines = [line.strip() for line in said.read().decode(errors="replace").splitlines()]
    last = [line for line in all_lines if line][-_SAID_LINES_MAX:]
    return " | ".join(line[:_SAID_LINE_CHARACTERS_MAX] for line in last)
