"""How SQLite keeps an instant: whole microseconds since 1970, which sort and compare as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from backstay.store.rows import Shape

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def micros(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def instant(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


SHAPE: Final = Shape(stored=micros, instant=instant)
