"""Job collections over the REST API."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from backstay.api.arm.shapes import (
    CollectionPath,
    Empty,
    GroupPath,
    Listed,
    PageQuery,
    Query,
    SubscriptionPath,
)
from backstay.api.arm.versions import skus_of
from backstay.api.calls import Call, Nothing, Reply
from backstay.jobroom import LISTED_MAX, Jobroom

_COLLECTIONS = "providers/Microsoft.Scheduler/jobCollections"


async def list_collections_of_subscription(call: Call[SubscriptionPath, PageQuery, Nothing]) -> Listed:
    subscription = call.path.subscription
    where = f"/subscriptions/{subscription}/{_COLLECTIONS}"
    return await _listed(call.client.jobroom, call.query, where, subscription)


async def list_collections(call: Call[GroupPath, PageQuery, Nothing]) -> Listed:
    subscription, group = call.path.subscription, call.path.group
    where = f"/subscriptions/{subscription}/resourceGroups/{group}/{_COLLECTIONS}"
    return await _listed(call.client.jobroom, call.query, where, subscription, group)


async def _listed(
    room: Jobroom, query: PageQuery, where: str, subscription: str, group: str | None = None
) -> Listed:
    found = await room.collections(subscription, group, skip=query.skip, limit=LISTED_MAX)
    if len(found) < LISTED_MAX:
        return Listed(found)
    return Listed(found, f"{where}?api-version={query.api_version}&$skip={query.skip + len(found)}")


async def get_collection(call: Call[CollectionPath, Query, Nothing]) -> dict[str, Any]:
    return await call.client.jobroom.collection(call.path.place)


async def put_collection(call: Call[CollectionPath, Query, Any]) -> Reply[dict[str, Any]]:
    """Created, the original service said of a change as well."""
    skus = skus_of(call.query.api_version)
    found = await call.client.jobroom.put_collection(call.path.place, call.body, skus=skus)
    return Reply(found, HTTPStatus.CREATED)


async def patch_collection(call: Call[CollectionPath, Query, Any]) -> dict[str, Any]:
    skus = skus_of(call.query.api_version)
    return await call.client.jobroom.patch_collection(call.path.place, call.body, skus=skus)


async def delete_collection(call: Call[CollectionPath, Query, Nothing]) -> Empty:
    await call.client.jobroom.delete_collection(call.path.place)
    return Empty()


async def enable_collection(call: Call[CollectionPath, Query, Any]) -> Empty:
    await call.client.jobroom.enable_collection(call.path.place)
    return Empty()


async def disable_collection(call: Call[CollectionPath, Query, Any]) -> Empty:
    await call.client.jobroom.disable_collection(call.path.place)
    return Empty()
