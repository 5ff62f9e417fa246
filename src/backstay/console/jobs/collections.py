"""Job collections with their quotas, and the jobs of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from backstay.console.jobs.places import APART, collection_in, path_of
from backstay.console.jobs.words import CollectionRow, collection_row, job_row
from backstay.console.visits import Visit, number_in
from backstay.domain.jobs.names import check_place
from backstay.domain.jobs.records import CollectionId, JobState
from backstay.domain.target import collection_target
from backstay.errors import InvalidInput, InvalidJob, Unknown
from backstay.store.records import AuditFilter

LOOKED_AT_EVERY: Final = timedelta(seconds=2)
PAGE_SIZE: Final = 50
TRAIL_MAX: Final = 10

#: What collections can be filtered by.
_FIELDS: Final[Sequence[str]] = ("subscription", "group")


# Collections


async def show(visit: Visit) -> Response:
    """The collections of a subscription; as on the command line of one, unless another is asked for."""
    settings = visit.house.common.ports.settings
    asked = {name: visit.query[name] for name in _FIELDS if name in visit.query}
    subscription = asked.get("subscription", settings.job_subscription)
    skip = number_in(visit.query, "cursor") or 0
    wrong, rows = None, []
    try:
        check_place(CollectionId(subscription, asked.get("group", "any"), "any"))
        rows = await _rows(visit, subscription, asked.get("group"), skip=skip)
    except InvalidJob as error:
        wrong = str(error)
    return visit.page(
        "jobs.html",
        asked=asked,
        subscription=subscription,
        rows=rows,
        wrong=wrong,
        first=f"/jobs?{urlencode(asked)}" if skip else None,
        next=f"/jobs?{urlencode({**asked, 'cursor': skip + PAGE_SIZE})}" if len(rows) == PAGE_SIZE else None,
    )


async def _rows(visit: Visit, subscription: str, group: str | None, *, skip: int) -> list[CollectionRow]:
    found = await visit.client.jobroom.all_filled(subscription, group, skip=skip, limit=PAGE_SIZE)
    return [collection_row(one, path_of(visit, one.collection.id)) for one in found]


# The jobs of one


async def show_collection(visit: Visit) -> Response:
    collection = collection_in(visit)
    state = _state(visit.query.get("state"))
    skip = number_in(visit.query, "cursor") or 0
    if visit.wants_events:
        await visit.client.jobroom.collection(collection)  # Who does not exist has nothing to be watched.
        about = f"jobs {'/'.join(collection.folded)} {state} {skip}"
        return visit.live(
            partial(_watched, visit, collection, state, skip), about=about, every=LOOKED_AT_EVERY
        )
    part = await _part(visit, collection, state, skip)
    trail = await visit.client.audit(AuditFilter(target=collection_target(collection.name), limit=TRAIL_MAX))
    return visit.page(
        "job_collection.html",
        name=collection.name,
        watched=_address(visit, collection, state, skip),
        part=part,
        seen=visit.mark(part),
        trail=trail.items,
    )


async def _watched(visit: Visit, collection: CollectionId, state: JobState | None, skip: int) -> str | None:
    try:
        return await _part(visit, collection, state, skip)
    except Unknown:
        return None  # It was deleted.


async def _part(visit: Visit, collection: CollectionId, state: JobState | None, skip: int) -> str:
    room = visit.client.jobroom
    filled = await room.filled(collection)
    jobs = await room.records(collection, state=state, skip=skip, limit=PAGE_SIZE)
    there = filled.collection.id
    is_full = len(jobs) == PAGE_SIZE
    return visit.part(
        "parts/job_collection.html",
        one=collection_row(filled, path_of(visit, there)),
        do=path_of(visit, there, APART),
        jobs=[job_row(job, partial(path_of, visit, there)) for job in jobs],
        only=state,
        by_state=[(one.value, _address(visit, there, one, 0)) for one in JobState],
        everything=path_of(visit, there),
        first=_address(visit, there, state, 0) if skip else None,
        next=_address(visit, there, state, skip + PAGE_SIZE) if is_full else None,
    )


def _address(visit: Visit, collection: CollectionId, state: JobState | None, skip: int) -> str:
    kept = {**({"state": state.value} if state else {}), **({"cursor": skip} if skip else {})}
    return f"{path_of(visit, collection)}?{urlencode(kept)}"


def _state(written: str | None) -> JobState | None:
    if written is None:
        return None
    if written not in set(JobState):
        raise InvalidInput(f"state is {written[:40]!r}; it must be one of {', '.join(JobState)}")
    return JobState(written)
