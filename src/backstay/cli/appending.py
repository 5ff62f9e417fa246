"""``backstay streams append STREAM -``: lines from standard input, and how far it has got."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import BinaryIO, Final

import typer

from backstay.cli.access import StreamDesk, desk_at
from backstay.cli.render import complain, note, print_json, say
from backstay.messaging.lines import ERRORS_MAX

#: Sent at once, in lines and in bytes: so many that each that is refused can be told.
PART_LINES: Final = ERRORS_MAX
PART_BYTES: Final = 512 * 1024
#: So many that were refused are shown; all of them are counted.
SHOWN_MAX: Final = 20
_EVERY: Final = 10_000


class Tally:
    """How far it has got."""

    def __init__(self) -> None:
        self.accepted = 0
        self.rejected = 0
        self._told = 0

    def note_progress(self) -> None:
        if self.accepted - self._told >= _EVERY:
            self._told = self.accepted
            note(f"{self.accepted:,} accepted")


def append_lines(stream: str, store: str | None, url: str | None, *, json: bool) -> None:
    """Append what standard input has; when some of it was refused, the command failed."""
    tally = asyncio.run(_append(stream, store, url))
    if json:
        print_json({"accepted": tally.accepted, "rejected": tally.rejected})
    else:
        say(f"{tally.accepted:,} accepted, {tally.rejected:,} refused")
    if tally.rejected:
        raise typer.Exit(1)


async def _append(stream: str, store: str | None, url: str | None) -> Tally:
    tally = Tally()
    async with desk_at(store, url) as desk:
        for first, text in _parts(sys.stdin.buffer):
            await _append_part(desk.streamroom, stream, text, first=first, tally=tally)
            tally.note_progress()
    return tally


async def _append_part(desk: StreamDesk, stream: str, text: bytes, *, first: int, tally: Tally) -> None:
    if text.isspace():
        return
    told = await desk.append_lines(stream, text)
    for bad in told.errors:
        tally.rejected += 1
        if tally.rejected <= SHOWN_MAX:
            complain(f"line {first + bad.line - 1}: {bad.detail}")
        elif tally.rejected == SHOWN_MAX + 1:
            note("more lines were refused; they are counted, and no longer shown")
    tally.accepted += told.accepted


def _parts(source: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Some lines at a time, and the number of the first of them."""
    number, lines, size = 1, list[bytes](), 0
    for line in source:
        lines.append(line)
        size += len(line)
        if len(lines) == PART_LINES or size >= PART_BYTES:
            yield number, b"".join(lines)
            number, lines, size = number + len(lines), [], 0
    if lines:
        yield number, b"".join(lines)
