"""How SQLite keeps an instant: whole microseconds since 1970."""

from __future__ import annotations

from typing import Final

from backstay.domain.instants import instant, micros
from backstay.store.rows import Shape

SHAPE: Final = Shape(stored=micros, instant=instant, flag=int)
