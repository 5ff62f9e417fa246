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


def instant(value: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
