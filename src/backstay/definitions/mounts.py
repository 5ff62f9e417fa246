"""Where an application of the user's own may stand beside the HTTP interface."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from backstay.errors import InvalidDefinition

_Message = MutableMapping[str, Any]
AsgiApplication = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]],
    Awaitable[None],
]

#: Where paths of Backstay's own begin, now or in a later release.
RESERVED: Final = frozenset(
    {
        "agents", "alerts", "audit", "dials", "docs", "healthz", "jobs", "metrics", "openapi.json", "queues",
        "readyz", "sign-in", "static", "streams", "subscriptions", "supervisor", "tasks", "tokens", "v1",
        "workflows",
    }
)  # fmt: skip

# Characters that every client sends as they are: a path has one spelling, so that no rule misses it.
_PATH: Final = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")


def check_path(path: str) -> str:
    """Raises InvalidDefinition, saying what would do."""
    if not _PATH.fullmatch(path):
        raise InvalidDefinition(
            f"{path!r} is no path to mount at; write it with a slash before each name, as in '/api'"
        )
    first = path.split("/")[1]
    if first in RESERVED:
        raise InvalidDefinition(f"paths below '/{first}' are Backstay's own; mount at another, as in '/api'")
    return path


def overlap(path: str, other: str) -> bool:
    """Whether one of them lies below the other, or both are the same."""
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")
