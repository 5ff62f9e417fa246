"""What became of one attempt of an action."""

from __future__ import annotations

import msgspec


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """``message`` is what the history says of it."""

    succeeded: bool
    message: str
