"""Secrets are taken out of what others said: receivers do repeat what they were told."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_HIDDEN: Final = "[hidden]"
#: Of a shorter beginning nobody learns a secret; and many a text ends so by chance.
BEGINNING_LENGTH_MIN: Final = 4


def without(text: str, secrets: Collection[str], *, is_whole: bool = True) -> str:
    """``text`` without any of these secrets. One that is not whole may end with the beginning of one."""
    if not is_whole:
        text = _without_beginning(text, secrets)
    # The longest first, so that no half of one is left.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return text


def _without_beginning(text: str, secrets: Collection[str]) -> str:
    # Where it was cut, half of a character may be left.
    text = text.rstrip("\ufffd")
    begun = max((_begun(text, secret) for secret in secrets), default=0)
    return text if begun < BEGINNING_LENGTH_MIN else f"{text[:-begun]}{_HIDDEN}"


def _begun(text: str, secret: str) -> int:
    """So many of the last characters may be the first ones of a secret."""
    lengths = range(min(len(text), len(secret)), 0, -1)
    return next((length for length in lengths if text.endswith(secret[:length])), 0)
