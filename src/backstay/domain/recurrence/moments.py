"""Instants as job documents write them: any ISO 8601 date, with or without a time and an offset.

Documents know tenths of a microsecond, the clock of this platform whole microseconds. The seventh digit is
kept, so that it can be written back; nothing is decided by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from backstay.domain.text import shortened
from backstay.errors import InvalidJob

_DIGITS: Final = 7
_PATTERN: Final = re.compile(
    r"(?P<year>[0-9]{4})-?(?P<month>[0-9]{2})-?(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):?(?P<minute>[0-9]{2})"
    r"(?::?(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,12}))?)?"
    r" ?(?P<zone>[Zz]|(?P<sign>[+-])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-9]{2}))?)?)?"
)
_EXAMPLES: Final = '"2030-01-31T12:00:00Z", "2030-01-31T12:00+02:00" or "2030-01-31"'


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant in UTC; ``tenths`` of a microsecond (0 to 9) come on top of ``at``."""

    at: datetime
    tenths: int = 0

    @property
    def text(self) -> str:
        """RFC 3339 with Z; a fraction without trailing zeros, or none."""
        whole = self.at.replace(microsecond=0, tzinfo=None).isoformat()
        fraction = f"{self.at.microsecond:06}{self.tenths}".rstrip("0")
        return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"


def read_moment(value: object, field: str) -> Moment:
    """The instant that ``value`` stands for; without an offset it is UTC, without a time it is midnight."""
    found = _PATTERN.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidJob(field, f"is {shortened(value)}; write an instant as in {_EXAMPLES}")
    try:
        return _moment(found)
    except (ValueError, OverflowError) as error:
        raise InvalidJob(
            field, f"is {value!r}, which no calendar has ({error}); write an instant as in {_EXAMPLES}"
        ) from error


def _moment(found: re.Match[str]) -> Moment:
    year, month, day, hour, minute, second = (
        int(found[part] or 0) for part in ("year", "month", "day", "hour", "minute", "second")
    )
    digits = (found["fraction"] or "")[:_DIGITS].ljust(_DIGITS, "0")
    at = datetime(year, month, day, hour, minute, second, int(digits[:-1]), tzinfo=_zone(found))
    return Moment(at.astimezone(UTC), int(digits[-1]))


def _zone(found: re.Match[str]) -> timezone:
    if not found["sign"]:
        return UTC
    hours, minutes = int(found["hours"]), int(found["minutes"] or 0)
    if minutes > 59:  # noqa: PLR2004  An hour has sixty.
        raise ValueError(f"an offset has at most 59 minutes, not {minutes}")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if found["sign"] == "-" else offset)
