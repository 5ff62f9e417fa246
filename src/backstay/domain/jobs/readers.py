"""Readers of values: each gives back the value as it will be answered, or says what is wrong with it.

None of them shows the value that it refuses: what was put into the wrong member may be a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from backstay.domain.jobs.merging import Json, kind_of
from backstay.domain.text import is_text
from backstay.errors import InvalidJob

Reader = Callable[[Any, str], Any]


def text(*, least: int = 1, most: int | None = None) -> Reader:
    """Text with so many characters."""

    def reader(value: Any, field: str) -> str:
        if not is_text(value):
            raise InvalidJob(field, f"is {kind_of(value)}; write text, without NUL")
        if len(value) < least:
            raise InvalidJob(field, f"is empty; write at least {least} character")
        if most is not None and len(value) > most:
            raise InvalidJob(field, f"has {len(value):,} characters; write at most {most:,}")
        return value

    return reader


def truth(value: Any, field: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidJob(field, f"is {kind_of(value)}; write true or false")
    return value


def choice(names: Iterable[str]) -> Reader:
    """One of these names, in any letter case; it is answered as it stands here."""
    known = {name.lower(): name for name in names}

    def reader(value: Any, field: str) -> str:
        found = known.get(value.lower()) if isinstance(value, str) else None
        if found is None:
            raise InvalidJob(field, f"is none of {', '.join(known.values())}; write one of them")
        return found

    return reader


def texts(value: Any, field: str) -> dict[str, str]:
    """An object whose values are text."""
    for name, one in value.items():
        if not is_text(name) or not is_text(one):
            raise InvalidJob(field, f"has a member that is {kind_of(one)}; names and values must be text")
    return dict(value)


def members(value: Mapping[str, Any], field: str, readers: Mapping[str, Reader], *, needed: str = "") -> Json:
    """What the readers make of the members that are there, in their order; ``needed`` must be.

    A member without a reader has no meaning where it stands, and is left out.
    """
    for name in needed.split():
        if name not in value:
            raise InvalidJob(f"{field}.{name}", "is missing; it is required here")
    return {name: reader(value[name], f"{field}.{name}") for name, reader in readers.items() if name in value}
