"""What the doors of a process are given by whoever composes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

import msgspec
from starlette.types import Receive, Scope, Send

from backstay.client import Client
from backstay.clock import Clock
from backstay.definitions.dials import Dial
from backstay.definitions.mounts import AsgiApplication
from backstay.settings import Settings

#: In the state of a request that came by a connection for which there is no room.
CROWDED: Final = "backstay.crowded"
#: In the state of a request that the fast lane has tried: the exception that is its outcome.
FAILED: Final = "backstay.failed"


class Health(Protocol):
    """How the process stands, asked by /healthz and /readyz."""

    def deaf(self) -> dict[str, str]:
        """The roles that make no progress although they should, and since when; empty when all is well."""

    def roles(self) -> tuple[str, ...]:
        """The roles of this process."""

    @property
    def draining(self) -> bool:
        """Whether the process is about to stop."""


class Pages(Protocol):
    """Pages for people, which have a guard of their own."""

    def has(self, raw_path: bytes) -> bool:
        """Whether a request for this path, with nothing decoded, is theirs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that they need."""

    client: Client
    settings: Settings
    clock: Clock
    health: Health
    # One round of the supervisor under the lease; whether it was ours to run.
    supervise: Callable[[], Awaitable[bool]]
    # The application's own routes, by the path that they lie below.
    mounts: Mapping[str, AsgiApplication] = {}
    # What it lets operators turn, by name.
    dials: Mapping[str, Dial] = {}
