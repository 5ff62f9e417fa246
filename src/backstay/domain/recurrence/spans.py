"""Durations as job documents write them: ``00:00:30`` and ``30.00:00:00``, or ``PT30S`` and ``P30D``.

Clients read one of the two notations only, so a span remembers in which it was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from backstay.domain.durations import LONGEST
from backstay.domain.instants import micros_in
from backstay.domain.text import shortened
from backstay.errors import InvalidJob

_DIGITS: Final = 6
_DAY: Final = timedelta(days=1)
_CLOCK: Final = re.compile(
    r"(?:(?P<days>[0-9]{1,8})\.)?(?P<hours>[01][0-9]|2[0-3]):(?P<minutes>[0-5][0-9])"
    r"(?::(?P<seconds>[0-5][0-9])(?:\.(?P<fraction>[0-9]{1,7}))?)?"
)
# Days may stand behind the T as well: published examples write PT1D and mean a day. Years and months have no
# fixed length, so they are not taken.
_ISO: Final = re.compile(
    r"P(?=.)(?:(?P<weeks>[0-9]{1,8})W)?(?:(?P<days>[0-9]{1,8})D)?"
    r"(?:T(?=.)(?:(?P<more_days>[0-9]{1,8})D)?(?:(?P<hours>[0-9]{1,10})H)?(?:(?P<minutes>[0-9]{1,10})M)?"
    r"(?:(?P<seconds>[0-9]{1,12})(?:[.,](?P<fraction>[0-9]{1,9}))?S)?)?",
    re.IGNORECASE,
)


class Notation(StrEnum):
    """How a duration is written."""

    CLOCK = "clock"  # [days.]hours:minutes:seconds
    ISO = "iso"  # ISO 8601


@dataclass(frozen=True, slots=True)
class Span:
    """A duration, and the notation in which whoever wrote it wants to read it."""

    length: timedelta
    notation: Notation = Notation.CLOCK

    @property
    def text(self) -> str:
        return _clock(self.length) if self.notation is Notation.CLOCK else _iso(self.length)


def read_span(value: object, field: str) -> Span:
    """The duration that ``value`` stands for; its least and greatest length are the caller's to check."""
    for notation, pattern in ((Notation.CLOCK, _CLOCK), (Notation.ISO, _ISO)):
        found = pattern.fullmatch(value) if isinstance(value, str) else None
        if found is not None:
            return Span(_length(found.groupdict(), field, found.string), notation)
    raise InvalidJob(
        field,
        f"is {shortened(value)}; write days.hours:minutes:seconds as in"
        ' "00:00:30" and "30.00:00:00", or ISO 8601 in weeks, days and below as in "PT30S" and "P30D"',
    )


def _length(parts: dict[str, str | None], field: str, written: str) -> timedelta:
    number = {name: int(text or 0) for name, text in parts.items() if name != "fraction"}
    days = number.get("weeks", 0) * 7 + number["days"] + number.get("more_days", 0)
    seconds = (number["hours"] * 60 + number["minutes"]) * 60 + number["seconds"]
    # Compared as numbers: the sum may not fit into a timedelta.
    if days * 86_400 + seconds > LONGEST.days * 86_400:
        raise InvalidJob(field, f"is {written}; write at most 100 years")
    fraction = (parts["fraction"] or "")[:_DIGITS].ljust(_DIGITS, "0")
    return timedelta(days=days, seconds=seconds, microseconds=int(fraction))


def _clock(length: timedelta) -> str:
    days, rest = divmod(length, _DAY)
    minutes, seconds = divmod(rest.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    day = f"{days}." if days else ""
    # Where there is a fraction it has seven digits, as .NET writes a TimeSpan.
    fraction = f".{rest.microseconds:06}0" if rest.microseconds else ""
    return f"{day}{hours:02}:{minutes:02}:{seconds:02}{fraction}"


def _iso(length: timedelta) -> str:
    days, rest = divmod(micros_in(length), 86_400_000_000)
    minutes, micros = divmod(rest, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{micros // 1_000_000}.{micros % 1_000_000:06}".rstrip("0").rstrip(".")
    time = "".join(
        f"{number}{unit}"
        for number, unit in ((hours, "H"), (minutes, "M"), (seconds, "S"))
        if number not in (0, "0")
    )
    day = f"{days}D" if days else ""
    return f"P{day}T{time}" if time else f"P{day or 'T0S'}"
