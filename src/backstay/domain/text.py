"""Text: what every store can keep, and what an error shows of a value."""

from __future__ import annotations

from typing import Final, TypeGuard

_SHOWN_MAX: Final = 80


def is_text(value: object) -> TypeGuard[str]:
    """Whether ``value`` is text that every store can keep: half of a surrogate pair and NUL are none."""
    return isinstance(value, str) and not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in value)


def shortened(value: object) -> str:
    """A value as an error shows it: its beginning, if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
