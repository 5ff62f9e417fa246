"""The policies that declarations take: a wrong one is refused where it is written, not at the first call."""

from __future__ import annotations

from typing import TypeVar

from backstay.errors import InvalidDefinition

Policy = TypeVar("Policy")


def policy(given: Policy | None, kind: type[Policy], name: str) -> Policy | None:
    """What was given as ``name=…``. Raises InvalidDefinition if that is no ``kind``."""
    if given is not None and not isinstance(given, kind):
        raise InvalidDefinition(f"{name} is {given!r}; write {name}={kind.__name__}(…)")
    return given
