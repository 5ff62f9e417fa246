"""Durations as people write them: ``"100ms" "5s" "2m" "3h" "3d"`` or a ``timedelta``."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from backstay.errors import InvalidInput, InvalidRequest

Duration = str | timedelta
#: An instant, as RFC 3339 or with its zone, or a duration that counts from now.
Instant = str | timedelta | datetime

_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
# Thirteen digits: a hundred years in milliseconds.
_PATTERN: Final = re.compile(r"([0-9]{1,13}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")

# A hundred years: longer than any system runs, short enough that instant + duration never overflows.
LONGEST: Final = timedelta(days=36_525)


def duration(value: Duration, *, name: str = "duration", least: timedelta = timedelta(0)) -> timedelta:
    """Parse ``value``; ``name`` is the field that an error will speak of."""
    parsed = value if isinstance(value, timedelta) else _parse(value, name)
    if not least <= parsed <= LONGEST:
        written = value if isinstance(value, str) else describe(value)
        raise InvalidRequest(f"{name} is {written}; it must lie between {describe(least)} and 100 years")
    return parsed


def _parse(value: object, name: str) -> timedelta:
    match = _PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidRequest(
            f'{name} is {value!r}; write a number and a unit, as in "100ms" "5s" "2m" "3h" "3d"'
        )
    count, unit = float(match[1]), _UNITS[match[2]]
    # Compared as numbers: count * unit may not fit into a timedelta.
    return count * unit if count <= LONGEST / unit else timedelta.max


def instant_of(value: Instant, *, now: datetime, name: str) -> datetime:
    """The instant that ``value`` means, in UTC; ``name`` is the field that an error will speak of."""
    instant = value if isinstance(value, datetime) else _written_instant(value, now, name)
    if instant.tzinfo is None:
        raise InvalidInput(f"{name} {instant.isoformat()} has no time zone; write it with an offset or Z")
    if instant - now > LONGEST:
        raise InvalidInput(f"{name} {instant.isoformat()} lies more than 100 years ahead")
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:  # The first day of the calendar, in a zone where it began earlier.
        raise InvalidInput(f"{name} {instant.isoformat()} lies before year 1 in UTC") from error


def _written_instant(value: Duration, now: datetime, name: str) -> datetime:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(value)
    try:
        return now + duration(value, name=name)
    except InvalidRequest as error:
        raise InvalidInput(f'{error}; an instant is written "2030-01-31T12:00:00Z"') from error


def describe(value: timedelta) -> str:
    """The shortest exact form: ``90s``, ``2m``, ``250ms``."""
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(value, _UNITS[unit])
        if not rest and (count or unit == "ms"):
            return f"{count}{unit}"
    return f"{value.total_seconds():f}".rstrip("0") + "s"
