"""Planted secrets are found nowhere: not in the database or its files, nor in logs, answers or history."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest

from backstay.store.records import AuditFilter
from tests.support.databases import Database, PostgresDatabase, SqliteDatabase
from tests.support.running_jobs import RunJobs
from tests.support.service import HttpService, dead_port, http_service, says

NONE = {"retryType": "None"}
BASIC, SAS, KEY, OAUTH = "pl4nted-basic", "sig=pl4nted-sas", "pl4nted-key", "pl4nted-oauth"
PATCHED, ERROR = "pl4nted-patched", "pl4nted-error"
PLANTED = [BASIC, SAS, KEY, OAUTH, PATCHED, ERROR]


def requesting(url: str, authentication: dict[str, Any], **more: Any) -> dict[str, Any]:
    request = {"uri": url, "method": "GET", "authentication": authentication}
    return {"type": "Http", "request": request, "retryPolicy": NONE, **more}


def basic(password: str) -> dict[str, Any]:
    return {"type": "Basic", "username": "u", "password": password}


def everything_in(database: Database) -> str:
    """Every column of every table; of a file its bytes as well, and those of its log."""
    if isinstance(database, PostgresDatabase):
        names = database.rows("SELECT tablename FROM pg_tables WHERE schemaname = ?", database.schema)
    else:
        names = database.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
    assert ("job_sealed_secret",) in names
    text = "".join(repr(database.rows(f"SELECT * FROM {name}")) for (name,) in names)
    if isinstance(database, SqliteDatabase):
        for file in database.path.parent.glob(f"{database.path.name}*"):
            text += file.read_bytes().decode("latin-1") if file.is_file() else ""
    return text


def spellings(secret: str) -> list[str]:
    both = (secret, f"u:{secret}")
    return [secret, *(base64.b64encode(one.encode()).decode().rstrip("=") for one in both)]


async def test_planted_secrets_are_nowhere(
    run_jobs: RunJobs, database: Database, service: HttpService, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    gone = f"http://127.0.0.1:{dead_port()}/"
    echo = says(500, f"you said Basic {base64.b64encode(f'u:{BASIC}'.encode()).decode()}, {BASIC}")
    service.answers = [echo]
    oauth = {"type": "ActiveDirectoryOAuth", "tenant": "t", "audience": "a", "clientId": "c", "secret": OAUTH}
    stored = {"storageAccount": "shop1", "queueName": "q", "sasToken": SAS, "message": "m"}
    sent = {
        "queueName": "q",
        "namespace": "n",
        "message": "m",
        "transportType": "netMessaging",
        "authentication": {"sasKeyName": "k", "sasKey": KEY, "type": "sharedAccessKey"},
    }
    actions = {
        "basic": requesting(service.url, basic(BASIC)),
        "error": requesting(gone, basic(BASIC), errorAction=requesting(gone, basic(ERROR))),
        "oauth": requesting(service.url, oauth),
        "storage": {"type": "StorageQueue", "queueMessage": stored, "retryPolicy": NONE},
        "bus": {"type": "ServiceBusQueue", "serviceBusQueueMessage": sent, "retryPolicy": NONE},
    }
    said: list[Any] = []
    async with (
        http_service(says(400, f"no, {OAUTH}")) as tokens,
        run_jobs(job_oauth_authority=tokens.url, job_storage_endpoint=gone + "{account}") as jobs,
    ):
        room, place = jobs.client.jobroom, jobs.calendar.place
        for name, action in actions.items():
            answer, _ = await room.put_job(place, name, {"properties": {"action": action}})
            said.append(answer)
            change = {"action": {"request": {"authentication": basic(PATCHED)}}} if name == "error" else {}
            said.append(await room.patch_job(place, name, {"properties": change}))
            await room.run(place, name)
            await jobs.attempts(2 if name == "error" else 1, name)
            said += [await room.job(place, name), await room.history(place, name)]
        said += [await room.jobs(place), (await jobs.client.audit(AuditFilter())).items]
        found = everything_in(database) + json.dumps(said, default=str) + caplog.text
        assert len(database.rows("SELECT 1 FROM job_sealed_secret")) == 6

    assert "[hidden]" in found, "the receiver did echo"
    assert [one for secret in PLANTED for one in spellings(secret) if one in found] == []
