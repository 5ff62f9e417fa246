"""Instants and lengths of time, as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_UNITS: Final = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("m", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
)

_BRIEF: Final = (("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 0.001))


def age(then: datetime, *, now: datetime) -> str:
    """How far away in one unit, rounded down: ``now``, ``42s ago``, ``in 5m``."""
    apart = now - then
    size = span(abs(apart))
    if size == "0s":
        return "now"
    return f"{size} ago" if apart > timedelta(0) else f"in {size}"


def span(time: timedelta) -> str:
    """A length of time in its largest unit, rounded down."""
    for unit, length in _UNITS:
        if time >= length:
            return f"{time // length}{unit}"
    return "0s"


def took(time: timedelta) -> str:
    """How long something took, to the millisecond where that is less than a second."""
    if time < timedelta(seconds=1):
        return f"{max(time, timedelta(0)) // timedelta(milliseconds=1)}ms"
    return span(time)


def brief(seconds: float) -> str:
    """A length of time in two or three digits: ``0.4ms``, ``12ms``, ``340ms``, ``1.9s``, ``2.5m``."""
    # A hair less than a unit would be rounded to a thousand, or sixty, of the one below.
    unit, size = next((one for one in _BRIEF if seconds >= one[1] * 0.9995), _BRIEF[-1])
    number = seconds / size
    return f"{number:.1f}{unit}" if number < 9.95 else f"{number:.0f}{unit}"  # noqa: PLR2004  Below 10, rounded.


def instant(value: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
