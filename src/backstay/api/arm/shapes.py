"""Paths, queries and answers of the REST API."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec
from starlette.responses import Response

from backstay.domain.jobs.records import CollectionId

_Top = Annotated[int, msgspec.Meta(ge=1, le=100)]
_Skip = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]

ApiVersion = Literal["2016-03-01", "2016-01-01", "2014-08-01-preview"]
#: The newest first.
API_VERSIONS: tuple[ApiVersion, ...] = get_args(ApiVersion)


class SubscriptionPath(msgspec.Struct, frozen=True):
    subscription: str


class GroupPath(msgspec.Struct, frozen=True):
    subscription: str
    group: str


class CollectionPath(msgspec.Struct, frozen=True):
    subscription: str
    group: str
    collection: str

    @property
    def place(self) -> CollectionId:
        return CollectionId(self.subscription, self.group, self.collection)


class JobPath(CollectionPath, frozen=True):
    job: str


class ProviderQuery(msgspec.Struct, frozen=True, kw_only=True):
    """With a version of the resource manager itself."""

    api_version: str = msgspec.field(name="api-version")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    api_version: ApiVersion = msgspec.field(name="api-version")


class PageQuery(Query, frozen=True, kw_only=True):
    """Where a list of many collections goes on."""

    skip: _Skip = msgspec.field(name="$skip", default=0)


class ListQuery(Query, frozen=True, kw_only=True):
    """The filter counts first, then what is skipped, then how many are wanted."""

    top: _Top | None = msgspec.field(name="$top", default=None)
    skip: _Skip = msgspec.field(name="$skip", default=0)
    filter: str | None = msgspec.field(name="$filter", default=None)


class Listed(msgspec.Struct, frozen=True):
    """A list; ``nextLink`` is where it goes on, null where it does not."""

    value: list[dict[str, Any]]
    nextLink: str | None = None  # noqa: N815  The name that clients know.


class Empty(Response):
    """Done, and nothing to say about it."""
