"""Jobs and their history over the REST API."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from backstay.api.arm.filters import compared
from backstay.api.arm.shapes import CollectionPath, Empty, JobPath, Listed, ListQuery, Query
from backstay.api.calls import Call, Nothing, Reply
from backstay.domain.jobs.records import EntryStatus, JobState
from backstay.jobroom import ENTRIES_USUAL, LISTED_MAX


async def list_jobs(call: Call[CollectionPath, ListQuery, Nothing]) -> Listed:
    query = call.query
    found = await call.client.jobroom.jobs(
        call.path.place,
        state=compared(query.filter, JobState, "state"),
        skip=query.skip,
        limit=query.top or LISTED_MAX,
    )
    return Listed(found)


async def get_job(call: Call[JobPath, Query, Nothing]) -> dict[str, Any]:
    return await call.client.jobroom.job(call.path.place, call.path.job)


async def put_job(call: Call[JobPath, Query, Any]) -> Reply[dict[str, Any]]:
    found, new = await call.client.jobroom.put_job(call.path.place, call.path.job, call.body)
    return Reply(found, HTTPStatus.CREATED if new else HTTPStatus.OK)


async def patch_job(call: Call[JobPath, Query, Any]) -> dict[str, Any]:
    return await call.client.jobroom.patch_job(call.path.place, call.path.job, call.body)


async def delete_job(call: Call[JobPath, Query, Nothing]) -> Empty:
    await call.client.jobroom.delete_job(call.path.place, call.path.job)
    return Empty()


async def run_job(call: Call[JobPath, Query, Any]) -> Empty:
    await call.client.jobroom.run(call.path.place, call.path.job)
    return Empty()


async def list_history(call: Call[JobPath, ListQuery, Nothing]) -> Listed:
    query = call.query
    found = await call.client.jobroom.history(
        call.path.place,
        call.path.job,
        status=compared(query.filter, EntryStatus, "status", "state"),
        skip=query.skip,
        limit=query.top or ENTRIES_USUAL,
    )
    return Listed(found)
