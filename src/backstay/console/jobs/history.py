"""What became of a job: every attempt and every gap, newest first, found by what is known of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from backstay.console.jobs.places import collection_in, job_in, path_of
from backstay.console.tasks import instant_in
from backstay.console.visits import Visit, number_in
from backstay.domain.jobs.records import ActionName, EntryStatus, HistoryEntry, JobRecord, task_id_of
from backstay.errors import InvalidInput, InvalidRequest

PAGE_SIZE: Final = 50

#: What can be filtered by, in the order of the fields.
_FIELDS: Final[Sequence[str]] = ("status", "action", "after", "before")

Value = TypeVar("Value", bound=StrEnum)


class LinkedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, and the task that made it; a gap has none."""

    entry: HistoryEntry
    task_id: str | None
    took: timedelta
    is_error_action: bool


def linked(job: JobRecord, entries: Iterable[HistoryEntry]) -> list[LinkedEntry]:
    return [
        LinkedEntry(
            entry=entry,
            task_id=None if entry.origin is None else task_id_of(job.uid, entry.origin),
            took=entry.ended_at - entry.started_at,
            is_error_action=entry.action is ActionName.ERROR,
        )
        for entry in entries
    ]


async def show(visit: Visit) -> Response:
    collection, name = collection_in(visit), job_in(visit)
    job = await visit.client.jobroom.record(collection, name)
    asked = {field: visit.query[field] for field in _FIELDS if field in visit.query}
    skip, wrong, found = 0, None, []
    try:
        skip = number_in(visit.query, "cursor") or 0
        found = await _found(visit, job, asked, skip=skip)
    except InvalidRequest as error:
        wrong = str(error)
    path = path_of(visit, job.collection, job.name)
    here = f"{path}/history?"
    is_full = len(found) == PAGE_SIZE
    return visit.page(
        "job_history.html",
        name=job.name,
        job_path=path,
        asked=asked,
        wrong=wrong,
        entries=linked(job, found),
        statuses=list(EntryStatus),
        first=here + urlencode(asked) if skip else None,
        next=here + urlencode({**asked, "cursor": skip + PAGE_SIZE}) if is_full else None,
    )


async def _found(visit: Visit, job: JobRecord, asked: dict[str, str], *, skip: int) -> list[HistoryEntry]:
    now = visit.house.common.ports.clock.now()
    return await visit.client.jobroom.entries(
        job,
        status=_one_of(EntryStatus, "status", asked.get("status")),
        action=_action(asked.get("action")),
        since=instant_in("after", asked.get("after"), now=now),
        until=instant_in("before", asked.get("before"), now=now),
        skip=skip,
        limit=PAGE_SIZE,
    )


def _action(written: str | None) -> ActionName | None:
    kinds = {"main": ActionName.MAIN, "error": ActionName.ERROR}
    if written is not None and written not in kinds:
        raise InvalidInput(f"action is {written[:40]!r}; it must be one of {', '.join(kinds)}")
    return None if written is None else kinds[written]


def _one_of(kind: type[Value], name: str, written: str | None) -> Value | None:
    if written is not None and written not in set(kind):
        raise InvalidInput(f"{name} is {written[:40]!r}; it must be one of {', '.join(kind)}")
    return None if written is None else kind(written)
