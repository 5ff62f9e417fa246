"""``$filter``: one comparison, ``state eq Enabled``. The value may be quoted, and in any letter case."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, TypeVar

from backstay.errors import InvalidInput

_COMPARISON: Final = re.compile(
    r"\s*(?P<member>[A-Za-z]+)\s+eq\s+(?P<quote>'?)(?P<value>[A-Za-z]+)(?P=quote)\s*", re.IGNORECASE
)

Value = TypeVar("Value", bound=StrEnum)


def compared(given: str | None, kind: type[Value], *members: str) -> Value | None:
    """What one of these members is to be. Raises InvalidInput."""
    if given is None:
        return None
    found = _COMPARISON.fullmatch(given)
    values = {value.lower(): value for value in kind}
    if found is None or found["member"].lower() not in members or found["value"].lower() not in values:
        known = ", ".join(value.capitalize() for value in values)
        raise InvalidInput(f"$filter is {given[:80]!r}; write {members[0]} eq VALUE, with one of {known}")
    return values[found["value"].lower()]
