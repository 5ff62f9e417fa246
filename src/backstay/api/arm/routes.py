"""The table: the fifteen operations of the published interface, and the provider."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Final

from backstay.api.arm import collections, jobs, provider
from backstay.api.arm.errors import STATUSES, ArmErrorBody
from backstay.api.routing import Route
from backstay.domain.access import Role

_PROVIDER: Final = "/subscriptions/{subscription}/providers/Microsoft.Scheduler"
_COLLECTIONS: Final = (
    "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Scheduler/jobCollections"
)
_COLLECTION: Final = f"{_COLLECTIONS}/{{collection}}"
_JOBS: Final = f"{_COLLECTION}/jobs"
_JOB: Final = f"{_JOBS}/{{job}}"

_route = partial(Route, refusals=dict.fromkeys(STATUSES, ArmErrorBody))
_get = partial(_route, method="GET", role=Role.READ)
_post = partial(_route, method="POST", role=Role.OPERATE)
_put = partial(_route, method="PUT", role=Role.OPERATE)
_patch = partial(_route, method="PATCH", role=Role.OPERATE)
_delete = partial(_route, method="DELETE", role=Role.OPERATE)

PROVIDER: Final = _get(
    path=_PROVIDER, handler=provider.get_provider, summary="What there is to manage, and where"
)

ROUTES: Final[tuple[Route, ...]] = (
    PROVIDER,
    _get(
        path=f"{_PROVIDER}/jobCollections",
        handler=collections.list_collections_of_subscription,
        summary="List the job collections of a subscription, by resource group, then name",
    ),
    _get(
        path=_COLLECTIONS,
        handler=collections.list_collections,
        summary="List the job collections of a resource group, by name",
    ),
    _get(path=_COLLECTION, handler=collections.get_collection, summary="Look at a job collection"),
    _put(
        path=_COLLECTION,
        handler=collections.put_collection,
        summary="Make a job collection, or replace it",
        statuses=(HTTPStatus.CREATED,),
    ),
    _patch(
        path=_COLLECTION,
        handler=collections.patch_collection,
        summary="Change a job collection: what is not said stays as it is",
    ),
    _delete(
        path=_COLLECTION,
        handler=collections.delete_collection,
        summary="Delete a job collection, with its jobs and their history",
    ),
    _post(
        path=f"{_COLLECTION}/enable",
        handler=collections.enable_collection,
        summary="Let the jobs of a collection run",
    ),
    _post(
        path=f"{_COLLECTION}/disable",
        handler=collections.disable_collection,
        summary="Let no job of a collection run",
    ),
    _get(path=_JOBS, handler=jobs.list_jobs, summary="List the jobs of a collection, by name"),
    _get(path=_JOB, handler=jobs.get_job, summary="Look at a job"),
    _put(
        path=_JOB,
        handler=jobs.put_job,
        summary="Make a job, or replace it",
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
    ),
    _patch(path=_JOB, handler=jobs.patch_job, summary="Change a job: what is not said stays as it is"),
    _delete(path=_JOB, handler=jobs.delete_job, summary="Delete a job, with its history"),
    _post(path=f"{_JOB}/run", handler=jobs.run_job, summary="Have a job's action done now"),
    _get(
        path=f"{_JOB}/history",
        handler=jobs.list_history,
        summary="What became of a job's occurrences, newest first",
    ),
)
