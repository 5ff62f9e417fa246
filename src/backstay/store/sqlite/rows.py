"""How SQLite keeps an instant: whole microseconds since 1970, which sort and compare as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from backstay.store.rows import Shape

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def micros(instant: datetime) -> int:
    since = instant - _EPOCH
    # A division by a timedelta would say the same, in twice the time.
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def instant(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


SHAPE: Final = Shape(stored=micros, instant=instant, flag=int)
