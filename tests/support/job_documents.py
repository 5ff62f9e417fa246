"""Documents of jobs as clients write them."""

from __future__ import annotations

from typing import Any

from backstay.domain.jobs.deciding import put_job
from backstay.domain.jobs.documents import JobDocument, joined, replaced
from backstay.domain.jobs.records import JobRecord
from tests.support.job_records import COLLECTION, NOON, PLACE, RULES

HTTP: dict[str, Any] = {"type": "Http", "request": {"uri": "http://example.org", "method": "GET"}}
BASIC: dict[str, Any] = {"type": "Basic", "username": "u", "password": "hunter2"}
QUEUE: dict[str, Any] = {
    "type": "StorageQueue",
    "queueMessage": {"storageAccount": "acct", "queueName": "q", "sasToken": "hunter2", "message": "m"},
}
SERVICE_BUS: dict[str, Any] = {
    "namespace": "ns",
    "message": "m",
    "transportType": "NetMessaging",
    "authentication": {"type": "SharedAccessKey", "sasKeyName": "k", "sasKey": "hunter2"},
}


def body(**properties: Any) -> dict[str, Any]:
    """A whole document: an Http job, unless ``properties`` say otherwise."""
    return {"properties": {"action": HTTP, **properties}}


def http(**request: Any) -> dict[str, Any]:
    return body(action={"type": "Http", "request": {**HTTP["request"], **request}})


def read(**properties: Any) -> JobDocument:
    return replaced(body(**properties))


def written(document: object, **fields: Any) -> JobRecord:
    """The job that a PUT of ``document`` makes."""
    new = JobRecord(
        key=1, uid="u1", collection=PLACE, name="j1", definition={}, created_at=NOON, updated_at=NOON
    )
    return put_job(
        new,
        replaced(document),
        **{"collection": COLLECTION, "job": None, "jobs": 0, "now": NOON, **fields},
        delay=RULES.immediately,
    )


def whole(job: JobRecord) -> dict[str, Any]:
    """What a client would PUT to have this job: what it is answered, and the secrets that it is not."""
    return {"properties": {**joined(job.definition, job.secrets), "state": job.state.value}}
