"""What a handler is given, and what it may give back."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec
from starlette.responses import Response

from backstay.api.admission import Admission
from backstay.api.contents import Lobby
from backstay.api.lookouts import Lookouts
from backstay.client import Client
from backstay.errors import InvalidInput
from backstay.web.access import Caller, Keyring
from backstay.web.ports import Ports
from backstay.web.sampled import Sampled
from backstay.web.standings import QueueGauges, Standings, TaskGauges
from backstay.web.watchers import Watchers

Path = TypeVar("Path")
Query = TypeVar("Query")
Body = TypeVar("Body")
Value = TypeVar("Value")


# What keeps the store from being worked with; empty when nothing does.
Hindrance = Sampled[str]


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where nothing is to be said."""


class Header(msgspec.Struct, frozen=True):
    """A header that a route understands."""

    name: str
    pattern: str
    description: str

    def checked(self, values: Sequence[str]) -> str:
        """The one value that was given. Raises InvalidInput, naming the header."""
        if len(values) > 1:
            raise InvalidInput(f"header {self.name} is given {len(values)} times; give it once")
        [value] = values
        if not re.fullmatch(self.pattern, value):
            raise InvalidInput(f"header {self.name} is {value[:40]!r}; it must fit {self.pattern}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What all calls share."""

    ports: Ports
    admission: Admission
    keyring: Keyring
    hindrance: Hindrance
    watchers: Watchers
    lookouts: Lookouts
    queue_gauges: Sampled[QueueGauges]
    task_gauges: Sampled[TaskGauges]
    lobby: Lobby
    stream_standings: Standings
    # The OpenAPI document.
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[Path, Query, Body]):
    """One request, taken apart and checked; the types say what the route takes."""

    service: Service
    caller: Caller
    path: Path
    query: Query
    body: Body
    # Those that the route understands and the request has.
    headers: Mapping[str, str]
    # Comes back when the caller is gone.
    hung_up: Callable[[], Awaitable[None]]

    @property
    def client(self) -> Client:
        """The client, acting as whoever asks."""
        return self.service.ports.client.acting_as(self.caller.name)


@dataclass(frozen=True, slots=True)
class Reply(Generic[Value]):
    """A value with more to say than the route's usual status."""

    value: Value
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Text(Response):
    """Plain text."""

    media_type = "text/plain"


class Html(Response):
    """A page."""

    media_type = "text/html"
