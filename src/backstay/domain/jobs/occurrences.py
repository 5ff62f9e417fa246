"""An occurrence as a task: what it is told, and how it enters the store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from backstay.domain.jobs.records import Collection, CollectionId, JobRecord, Occurrence
from backstay.domain.task import OURS, NewTask

#: The workflow that every occurrence is a task of. What it is told must not change within a version.
WORKFLOW: Final = f"{OURS}job"
VERSION: Final = 1
#: The agent that makes the attempts.
AGENT: Final = f"{OURS}jobs"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What an occurrence is told. A change of the job is for the next one, so the action is part of it."""

    occurrence: Occurrence
    collection: CollectionId
    # Where the collection says that it is; requests tell it.
    region: str
    job: str
    # As a client may see it, and never a secret.
    action: Mapping[str, Any]


def by_hand(job: JobRecord, *, now: datetime) -> Occurrence:
    """One that a person asks for: no instant is used up, and no number."""
    return Occurrence(
        job_key=job.key,
        uid=job.uid,
        generation=job.generation,
        at=now,
        by_hand=True,
        number=job.occurrences,
    )


def task_of(occurrence: Occurrence, job: JobRecord, collection: Collection) -> NewTask:
    """The task that is entered for it; an id is accepted once, and so it runs once."""
    run = Run(
        occurrence=occurrence,
        collection=collection.id,
        region=collection.location,
        job=job.name,
        action=job.definition["action"],
    )
    return NewTask(
        id=occurrence.task_id,
        workflow=WORKFLOW,
        version=VERSION,
        input=msgspec.json.encode(run, order="deterministic"),
        attributes={"job": job.name, "collection": collection.id.name},
    )
