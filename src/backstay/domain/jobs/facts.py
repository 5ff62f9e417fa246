"""What the audit trail keeps of collections and jobs: how they stood, never what they hold."""

from __future__ import annotations

from typing import Any

from backstay.domain.jobs.records import Collection, JobRecord


def collection_facts(collection: Collection | None) -> dict[str, Any] | None:
    if collection is None:
        return None
    return {
        "state": collection.state.value,
        "sku": collection.sku.value,
        "location": collection.location,
    }


def job_facts(job: JobRecord | None) -> dict[str, Any] | None:
    if job is None:
        return None
    return {"state": job.state.value, "uid": job.uid, "generation": job.generation}
