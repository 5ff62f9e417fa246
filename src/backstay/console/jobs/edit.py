"""Write a job: the page with its fields, what would come of them while they are typed, and the change itself.

A new job is a PUT, a change is a PATCH that says only what became another. So secrets, which no page shows,
stay as they are unless new ones are written.
"""

from __future__ import annotations

from http import HTTPStatus
from itertools import islice
from typing import Any, Final

import msgspec
from starlette.responses import Response

from backstay.console.jobs.form import MONTHS, Fields, fields_of, properties_of
from backstay.console.jobs.places import collection_in, job_in, path_of
from backstay.console.jobs.words import Instant, instants, retries, when
from backstay.console.visits import Visit, moved, reason_in
from backstay.domain.instants import instant, micros
from backstay.domain.jobs import deciding
from backstay.domain.jobs.actions import METHODS
from backstay.domain.jobs.documents import missing_secrets
from backstay.domain.jobs.merging import Json, difference
from backstay.domain.jobs.names import NAME_LENGTH_MAX, check_name
from backstay.domain.jobs.records import CollectionId, JobRecord, JobState
from backstay.domain.jobs.shapes import JOB
from backstay.domain.recurrence import Frequency, Timetable, read_timing
from backstay.domain.recurrence.definition import WEEK_DAYS
from backstay.errors import BackstayError, Conflict, InvalidInput, InvalidJob, InvalidRequest, Unknown

UPCOMING: Final = 20

#: The parameter that names a job to begin with.
LIKE: Final = "like"
#: The field that tells why a form was sent, and what it says when nothing is to be kept.
WANTED: Final = "wanted"
PREVIEW: Final = "preview"

#: A job that has no name yet needs one to be judged.
_NAMELESS: Final = "job"
_NEW: Final[Fields] = {"what": "request", "frequency": "day", "interval": "1"}
_ENABLED: Final = {"state": JobState.ENABLED.value}


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What would come of the fields; or what is wrong with them."""

    when: str = ""
    upcoming: list[Instant] = []
    action: Json | None = None
    retries: str = ""
    # It would not be enabled; what comes next is told as if it were.
    is_disabled: bool = False
    wrong: str | None = None


# New jobs


async def new(visit: Visit) -> Response:
    """An empty page; or one with what another job of the collection has, but for its secrets."""
    room, collection = visit.client.jobroom, collection_in(visit)
    await room.collection(collection)  # Without it nothing could be made.
    if LIKE not in visit.query:
        # Nothing was typed yet that could be wrong.
        preview = msgspec.structs.replace(await _new_preview(visit, _NEW), wrong=None)
        return _page(visit, collection, _NEW, preview=preview)
    job = await room.record(collection, check_name(visit.query[LIKE], "job"))
    fields = fields_of(job.definition)
    return _page(visit, collection, fields, preview=await _new_preview(visit, fields))


async def create(visit: Visit) -> Response:
    collection, fields = collection_in(visit), visit.form
    if fields.get(WANTED) == PREVIEW:
        return await _previewed(visit, collection, await _new_preview(visit, fields))
    name = fields.get("name", "").strip()
    try:
        document = {"properties": properties_of(fields)}
        await visit.client.jobroom.put_job(
            collection, name, document, may_replace=False, reason=reason_in(fields)
        )
    except Unknown:
        raise
    except (InvalidRequest, Conflict) as error:
        return await _refused(visit, collection, error, await _new_preview(visit, fields))
    return moved(path_of(visit, collection, name))


async def _new_preview(visit: Visit, fields: Fields) -> Preview:
    room, collection, properties = visit.client.jobroom, collection_in(visit), {}
    try:
        properties = properties_of(fields)
        name = fields.get("name", "").strip() or _NAMELESS
        job = await room.previewed_put(collection, name, {"properties": {**properties, **_ENABLED}})
    except (InvalidRequest, Conflict) as error:
        return _mistake(visit, error, properties)
    return _seen(visit, job, is_disabled=_is_disabled(properties))


# Changes


async def edit(visit: Visit) -> Response:
    job = await _open_job(visit)
    fields = fields_of(job.definition)
    preview = await _change_preview(visit, job, fields)
    return _page(
        visit, job.collection, {**fields, "as-of": str(micros(job.updated_at))}, job=job, preview=preview
    )


async def change(visit: Visit) -> Response:
    job, fields = await _open_job(visit), visit.form
    if fields.get(WANTED) == PREVIEW:
        return await _previewed(visit, job.collection, await _change_preview(visit, job, fields), job=job)
    try:
        as_of = _as_of(fields)
        if changed := _change(job, properties_of(fields)):
            await visit.client.jobroom.patch_job(
                job.collection, job.name, {"properties": changed}, as_of=as_of, reason=reason_in(fields)
            )
    except Unknown:
        raise
    except (InvalidRequest, Conflict) as error:
        return await _refused(
            visit, job.collection, error, await _change_preview(visit, job, fields), job=job
        )
    return moved(path_of(visit, job.collection, job.name))


async def _open_job(visit: Visit) -> JobRecord:
    """Raises JobForbids for one that has come to its end."""
    job = await visit.client.jobroom.record(collection_in(visit), job_in(visit))
    deciding.check_open(job)
    return job


def _change(job: JobRecord, wanted: Json) -> Json:
    """What of its properties is to become another."""
    return difference(properties_of(fields_of(job.definition)), wanted, JOB)


async def _change_preview(visit: Visit, job: JobRecord, fields: Fields) -> Preview:
    room, properties = visit.client.jobroom, {}
    try:
        properties = properties_of(fields)
        changed = _change(job, properties)
        document = {"properties": {**changed, **_ENABLED}}
        previewed = await room.previewed_patch(job.collection, job.name, document)
    except (InvalidRequest, Conflict) as error:
        return _mistake(visit, error, properties)
    return _seen(visit, previewed, is_disabled=_is_disabled({"state": job.state.value, **changed}))


def _as_of(fields: Fields) -> Any:
    try:
        return instant(int(fields.get("as-of", "")))
    except (ValueError, OverflowError) as error:
        raise InvalidInput("the form does not say as of when it is; load the page again") from error


# Both


def _seen(visit: Visit, job: JobRecord, *, is_disabled: bool) -> Preview:
    action = job.definition["action"]
    return Preview(
        when=when(job),
        upcoming=instants(visit.client.jobroom.upcoming(job, limit=UPCOMING)),
        action=action,
        retries=retries(action),
        is_disabled=is_disabled,
    )


def _is_disabled(properties: Json) -> bool:
    return str(properties.get("state") or "").lower() == JobState.DISABLED


def _mistake(visit: Visit, error: BackstayError, properties: Json) -> Preview:
    """What is wrong; and when it would run, if that much can be told."""
    if isinstance(error, Unknown):
        raise error
    ports = visit.house.common.ports
    try:
        timing, now = read_timing(properties), ports.clock.now()
        table = Timetable(timing, created=now, delay=ports.settings.job_immediately)
    except InvalidJob:
        return Preview(wrong=str(error))
    upcoming = instants(islice(table.occurrences(), UPCOMING))
    return Preview(wrong=str(error), when=table.describe() if properties else "", upcoming=upcoming)


async def _previewed(
    visit: Visit, collection: CollectionId, preview: Preview, *, job: JobRecord | None = None
) -> Response:
    """A script puts the part where it belongs; without one it comes with the page around it."""
    if visit.wants_part:
        return visit.page("parts/job_preview.html", preview=preview)
    return _page(visit, collection, visit.form, preview=preview, job=job)


async def _refused(
    visit: Visit,
    collection: CollectionId,
    error: BackstayError,
    preview: Preview,
    *,
    job: JobRecord | None = None,
) -> Response:
    """The page with what was typed, and what is wrong with it."""
    status = HTTPStatus.CONFLICT if isinstance(error, Conflict) else HTTPStatus.UNPROCESSABLE_ENTITY
    return _page(visit, collection, visit.form, preview=preview, job=job, wrong=str(error), status=status)


def _page(
    visit: Visit,
    collection: CollectionId,
    fields: Fields,
    *,
    preview: Preview,
    job: JobRecord | None = None,
    wrong: str | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    return visit.page(
        "job_edit.html",
        status=status,
        job=job,
        fields=fields,
        preview=preview,
        wrong=wrong,
        back=path_of(visit, collection, *([] if job is None else [job.name])),
        collection=collection.name,
        secrets=[] if job is None else missing_secrets({"properties": job.definition}),
        methods=METHODS,
        frequencies=list(Frequency),
        week_days=WEEK_DAYS,
        months=list(enumerate(MONTHS, start=1)),
        name_length_max=NAME_LENGTH_MAX,
    )
