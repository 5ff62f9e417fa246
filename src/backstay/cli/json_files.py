"""Files of JSON that commands read."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import typer

from backstay.cli.render import visible


def read_json(file: str, *, example: str, bytes_max: int, option: str = "--file") -> Any:
    """What a file, or with ``-`` standard input, holds as JSON."""
    try:
        return msgspec.json.decode(_content(file, bytes_max=bytes_max, option=option))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise typer.BadParameter(f"{visible(str(error))}; write {example}", param_hint=option) from error


def _content(file: str, *, bytes_max: int, option: str) -> bytes:
    """What the file holds, unless that is too much."""
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
            content = stream.read(bytes_max + 1)
    except (OSError, ValueError) as error:  # A path may hold what no path can.
        raise typer.BadParameter(f"it cannot be read: {visible(str(error))}", param_hint=option) from error
    if len(content) > bytes_max:
        raise typer.BadParameter(f"it has more than {bytes_max:,} bytes; split it", param_hint=option)
    return content
