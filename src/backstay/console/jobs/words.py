"""Jobs and collections as their pages show them. Pure: made of records, which hold no secret."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from backstay.domain.durations import describe
from backstay.domain.jobs import skus
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.records import CollectionState, Counters, JobRecord
from backstay.domain.jobs.retrying import policy_of
from backstay.domain.recurrence import Timetable, read_timing
from backstay.domain.recurrence.definition import WEEK_DAYS
from backstay.errors import InvalidJob
from backstay.jobroom import Filled


class CollectionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A collection, and how much of what it may have it has."""

    name: str
    group: str
    subscription: str
    path: str
    state: str
    is_enabled: bool
    sku: str
    location: str
    tags: dict[str, str]
    jobs: int
    jobs_max: int
    # Of what may be in it, in percent.
    width: float
    fastest: str


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job, and how it stands."""

    name: str
    path: str
    state: str
    when: str
    next_at: datetime | None
    last_at: datetime | None
    counters: Counters
    action: Json


def collection_row(filled: Filled, path: str) -> CollectionRow:
    collection = filled.collection
    most, fastest = skus.jobs_max(collection), skus.fastest(collection)
    return CollectionRow(
        name=collection.id.name,
        group=collection.id.resource_group,
        subscription=collection.id.subscription,
        path=path,
        state=collection.state.value.lower(),
        is_enabled=collection.state is CollectionState.ENABLED,
        sku=collection.sku.value,
        location=collection.location,
        tags=dict(collection.tags or {}),
        jobs=filled.jobs,
        jobs_max=most,
        width=round(100 * min(1.0, filled.jobs / most), 2) if most else 100.0,
        fastest=_every(fastest.frequency, fastest.interval),
    )


def job_row(job: JobRecord, path_of: Callable[[str], str]) -> JobRow:
    return JobRow(
        name=job.name,
        path=path_of(job.name),
        state=job.state.value,
        when=when(job),
        next_at=job.next_at,
        last_at=job.last_execution_at,
        counters=job.counters,
        action=job.definition["action"],
    )


class Instant(msgspec.Struct, frozen=True):
    """When a job runs, and on which day of the week that is."""

    at: datetime
    day: str


def instants(times: Iterable[datetime]) -> list[Instant]:
    return [Instant(at, WEEK_DAYS[at.weekday()].capitalize()) for at in times]


def when(job: JobRecord) -> str:
    """When it runs, in a sentence."""
    try:
        return Timetable(read_timing(job.definition), created=job.created_at).describe()
    except InvalidJob as error:  # Another release may have written it.
        return f"at times that nobody can read: {error}"


def retries(action: Json, *given: Json | None) -> str:
    """How often an action is tried again; ``given`` is the policy of the action that it is the error of."""
    policy = policy_of(action.get("retryPolicy"), *given)
    if policy.count == 0:
        return "never"
    times = "once" if policy.count == 1 else f"{policy.count} times"
    return f"{times}, {describe(policy.interval)} apart"


def _every(frequency: str, interval: int) -> str:
    return f"every {frequency}" if interval == 1 else f"every {interval} {frequency}s"
