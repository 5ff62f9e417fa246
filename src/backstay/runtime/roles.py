"""What a process can be."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from backstay.errors import InvalidSetting


class Role(StrEnum):
    API = "api"
    INGEST = "ingest"
    SCHEDULER = "scheduler"
    AGENTS = "agents"
    SUPERVISOR = "supervisor"
    JOBS = "jobs"


Roles = frozenset[Role]

ALL: Final[Roles] = frozenset(Role)
#: What an application runs inside its own process.
EMBEDDED: Final[Roles] = ALL - {Role.API}


def parse_roles(names: Iterable[str]) -> Roles:
    """The roles of these names. Raises InvalidSetting."""
    found = frozenset(_role(name.strip()) for name in names)
    if not found:
        raise InvalidSetting(f"no role is named; roles: {', '.join(Role)}")
    return found


def _role(name: str) -> Role:
    try:
        return Role(name)
    except ValueError:
        raise InvalidSetting(f"there is no role {name!r}; roles: {', '.join(Role)}") from None


def as_names(roles: Roles) -> tuple[str, ...]:
    """In the order in which they are declared."""
    return tuple(role.value for role in Role if role in roles)
