"""What arguments and options mean that several commands take."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import msgspec
import typer

from backstay.cli.render import note, visible
from backstay.domain.durations import duration
from backstay.errors import InvalidRequest

LIMIT_MAX: Final = 1_000
KEY_MAX: Final = 2**63 - 1
_KEY_DIGITS_MAX: Final = 19

TaskArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the task.", show_default=False)]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the audit trail.", show_default=False)
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", help=f"At most so many, 1 to {LIMIT_MAX}.")]
CursorOption = Annotated[
    str | None,
    typer.Option("--cursor", help="Go on where the page that gave this cursor ended.", show_default=False),
]


def check_meant(question: str, *, yes: bool, otherwise: str) -> None:
    """Ask whether that is meant, if there is a terminal to ask on; whoever says no is told ``otherwise``."""
    if not yes and sys.stdin.isatty() and not typer.confirm(question, err=True):
        note(otherwise)
        raise typer.Exit(1)


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= LIMIT_MAX:
        raise typer.BadParameter(f"{limit} is out of range; ask for 1 to {LIMIT_MAX}", param_hint="--limit")
    return limit


def key_of(cursor: str | None) -> int | None:
    """Where a page begins: behind the entry of this key."""
    if cursor is None:
        return None
    plain = cursor.isascii() and cursor.isdigit() and len(cursor) <= _KEY_DIGITS_MAX
    if not plain or not 0 < int(cursor) <= KEY_MAX:
        raise typer.BadParameter(
            f'{cursor!r} is no cursor; take "next" of the page before', param_hint="--cursor"
        )
    return int(cursor)


def json_value(text: str, *, example: str) -> Any:
    """The value that a JSON argument stands for; ``-`` reads standard input."""
    try:
        return msgspec.json.decode(sys.stdin.buffer.read() if text == "-" else text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise typer.BadParameter(
            f"{visible(str(error))}; write JSON inside quotes, as in '{example}' or '\"text\"'",
            param_hint="JSON",
        ) from error


def pair(written: str, mark: str, *, option: str = "--attribute", what: str = "attribute") -> tuple[str, str]:
    """An attribute or a property: its name and its value with ``mark`` between them."""
    name, found, value = written.partition(mark)
    if not name or not found:
        raise typer.BadParameter(
            f"{written!r} is no {what}; write its name and value, as in customer{mark}c9",
            param_hint=option,
        )
    return name, value


def past_instant(written: str | None, *, option: str, now: datetime) -> datetime | None:
    """An RFC 3339 instant, or a duration that counts back from now."""
    if written is None:
        return None
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        return now - _duration(written, option=option)
    if at.tzinfo is None:
        raise typer.BadParameter(
            f"{written} has no time zone; write it with an offset or Z", param_hint=option
        )
    return at


def _duration(written: str, *, option: str) -> timedelta:
    try:
        return duration(written, name="the time")
    except InvalidRequest as error:
        raise typer.BadParameter(
            f'{error}; an instant is written "2030-01-31T12:00:00Z"', param_hint=option
        ) from error
