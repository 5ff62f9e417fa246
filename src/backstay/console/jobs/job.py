"""One job: what it does and when, how it stands, what comes next, and what became of it last."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from starlette.responses import Response

from backstay.console.jobs.acts import offers
from backstay.console.jobs.history import LinkedEntry, linked
from backstay.console.jobs.places import collection_in, job_in, path_of
from backstay.console.jobs.words import Instant, instants, retries, when
from backstay.console.visits import Visit
from backstay.domain.jobs.documents import missing_secrets
from backstay.domain.jobs.records import CollectionId, CollectionState, JobRecord, JobState
from backstay.domain.target import job_target
from backstay.errors import Conflict, InvalidJob, Unknown
from backstay.store.records import AuditFilter

LOOKED_AT_EVERY: Final = timedelta(seconds=2)
UPCOMING: Final = 20
ENTRIES: Final = 10
TRAIL_MAX: Final = 20


async def show(visit: Visit) -> Response:
    collection, name = collection_in(visit), job_in(visit)
    if visit.wants_events:
        await visit.client.jobroom.record(collection, name)  # Who does not exist has nothing to be watched.
        about = f"job {'/'.join(collection.folded)} {name.casefold()}"
        return visit.live(lambda: _watched(visit, collection, name), about=about, every=LOOKED_AT_EVERY)
    part = await _part(visit, collection, name)
    return visit.page(
        "job.html",
        name=name,
        watched=f"{path_of(visit, collection, name)}?",
        part=part,
        seen=visit.mark(part),
    )


async def _watched(visit: Visit, collection: CollectionId, name: str) -> str | None:
    try:
        return await _part(visit, collection, name)
    except Unknown:
        return None  # It was deleted.


async def _part(visit: Visit, collection: CollectionId, name: str) -> str:
    room = visit.client.jobroom
    there, job = await room.filled(collection), await room.record(collection, name)
    path = path_of(visit, there.collection.id, job.name)
    action = job.definition["action"]
    error_action = action.get("errorAction")
    trail = await visit.client.audit(
        AuditFilter(target=job_target(there.collection.id.name, job.name), limit=TRAIL_MAX)
    )
    entries: list[LinkedEntry] = linked(job, await room.entries(job, limit=ENTRIES))
    return visit.part(
        "parts/job.html",
        job=job,
        path=path,
        collection=there.collection,
        collection_path=path_of(visit, there.collection.id),
        is_held=there.collection.state is not CollectionState.ENABLED,
        when=when(job),
        action=action,
        error_action=error_action,
        retries=retries(action),
        error_retries=None if error_action is None else retries(error_action, action.get("retryPolicy")),
        secrets=missing_secrets({"properties": job.definition}),
        upcoming=await _upcoming(visit, there.collection.id, job),
        offers=offers(visit, job, there.collection) if visit.may_operate else [],
        entries=entries,
        trail=trail,
    )


async def _upcoming(visit: Visit, collection: CollectionId, job: JobRecord) -> list[Instant]:
    """What comes next; of a job that is disabled, what would if it were enabled now."""
    room = visit.client.jobroom
    try:
        if job.state is JobState.DISABLED:
            job = await room.previewed_enable(collection, job.name)
        return instants(room.upcoming(job, limit=UPCOMING))
    except (Conflict, InvalidJob):
        return []  # It could not be enabled as it is; whoever tries is told why.
