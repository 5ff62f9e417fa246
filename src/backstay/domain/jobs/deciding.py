"""What a change makes of a job or a collection, given what is there. Raises, and then nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from backstay.domain.jobs import skus
from backstay.domain.jobs.documents import JobDocument, patched
from backstay.domain.jobs.outcomes import FINISHED
from backstay.domain.jobs.planning import begun, continued
from backstay.domain.jobs.records import Collection, CollectionState, JobRecord, JobState, Sku
from backstay.domain.recurrence import read_timing
from backstay.errors import JobForbids, QuotaExceeded


def put_job(
    new: JobRecord,
    document: JobDocument,
    *,
    collection: Collection,
    job: JobRecord | None,
    jobs: int,
    delay: timedelta,
    now: datetime,
) -> JobRecord:
    """The job that a PUT makes of ``job``, or of ``new`` where there is none; ``jobs`` are there already."""
    if job is None:
        skus.check_number(collection, jobs + 1)
        return _settled(begun(new, document, delay=delay, now=now), document, collection=collection, now=now)
    check_open(job)
    again = msgspec.structs.replace(job, generation=job.generation + 1)
    return _settled(begun(again, document, delay=delay, now=now), document, collection=collection, now=now)


def patch_job(
    body: object, *, collection: Collection, job: JobRecord, delay: timedelta, now: datetime
) -> JobRecord:
    """The job that a PATCH makes of ``job``."""
    check_open(job)
    document = patched(job, body)
    return _settled(continued(job, document, delay=delay, now=now), document, collection=collection, now=now)


def _settled(job: JobRecord, document: JobDocument, *, collection: Collection, now: datetime) -> JobRecord:
    skus.check_pace(collection, job.name, document.timing, now=now)
    skus.check_authentication(collection, job.name, document.definition)
    return msgspec.structs.replace(
        job,
        definition=document.definition,
        secrets=document.secrets,
        catch_up=document.catch_up,
        overlap=document.overlap,
        updated_at=now,
    )


def check_open(job: JobRecord) -> None:
    """Raise JobForbids for a job that has come to its end."""
    if job.state in FINISHED:
        raise JobForbids(
            f"Job '{job.name}' is {job.state} and cannot be changed. Delete it, and create it anew."
        )


def check_may_run(collection: Collection, job: JobRecord) -> None:
    """Raise JobForbids unless a person may have the job run now."""
    check_open(job)
    if job.state is not JobState.ENABLED:
        raise JobForbids(f"Job '{job.name}' is {job.state}. Enable it to run it.")
    if collection.state is not CollectionState.ENABLED:
        raise JobForbids(
            f"The job collection '{collection.id.name}' is {collection.state}. Enable it to run its jobs."
        )


def checked_collection(
    new: Collection,
    *,
    collection: Collection | None,
    jobs: Sequence[JobRecord],
    others: Mapping[str, int],
    now: datetime,
) -> Collection:
    """Return what a change makes of ``collection``, if the jobs that are in it may be there as well.

    ``others`` is how many other collections the subscription has of each SKU.
    """
    if collection is None or new.sku is not collection.sku:
        _check_subscription(new, others)
    skus.check_number(new, len(jobs))
    if collection is None or not skus.is_narrower(new, than=collection):
        return new
    for job in jobs:
        if job.state not in FINISHED:
            skus.check_pace(new, job.name, read_timing(job.definition), now=now)
            skus.check_authentication(new, job.name, job.definition)
    return new


def _check_subscription(new: Collection, others: Mapping[str, int]) -> None:
    there, most = others.get(new.sku, 0), skus.ALLOWANCES[new.sku].collections
    if new.sku is Sku.FREE and there >= most:
        raise QuotaExceeded(
            f"Subscription '{new.id.subscription}' has a Free job collection already, and there can be only"
            " one free job collection per subscription. Choose another SKU."
        )
    if there >= most or sum(others.values()) >= skus.COLLECTIONS_MAX:
        raise QuotaExceeded(
            f"Subscription '{new.id.subscription}' has {there:,} {new.sku} job collections, and"
            f" {sum(others.values()):,} in all: {most:,} and {skus.COLLECTIONS_MAX:,} are allowed."
            " Delete one, or choose another SKU."
        )
