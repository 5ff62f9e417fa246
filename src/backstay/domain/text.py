"""Which text every store can keep."""

from __future__ import annotations

from typing import TypeGuard


def is_text(value: object) -> TypeGuard[str]:
    """Whether ``value`` is text that every store can keep: half of a surrogate pair and NUL are none."""
    return isinstance(value, str) and not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in value)
