"""Messages to a queue of Azure Storage: a double of it that checks signatures as the service does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import sys
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from aiohttp import web
from azure.storage.queue import QueueSasPermissions, generate_queue_sas

from backstay.domain.jobs.records import EntryStatus
from tests.support.running_jobs import RunJobs
from tests.support.service import HttpService, dead_port, never

ACCOUNT, QUEUE = "shop1", "orders"
KEY = base64.b64encode(b"a key of the account").decode()
NONE = {"retryType": "None"}
STORED = (
    "<QueueMessagesList><QueueMessage><MessageId>m</MessageId><InsertionTime>Tue, 01 Jan 2030 12:00:00 GMT"
    "</InsertionTime><ExpirationTime>Tue, 08 Jan 2030 12:00:00 GMT</ExpirationTime><PopReceipt>p</PopReceipt>"
    "<TimeNextVisible>Tue, 01 Jan 2030 12:00:00 GMT</TimeNextVisible></QueueMessage></QueueMessagesList>"
)


def token(key: str = KEY) -> str:
    return generate_queue_sas(
        ACCOUNT, QUEUE, key, permission=QueueSasPermissions(add=True), expiry=datetime(2100, 1, 1, tzinfo=UTC)
    )


def is_signed(request: web.Request) -> bool:
    said = request.query
    names = ("sp", "st", "se", None, "si", "sip", "spr", "sv")
    parts = [f"/queue/{ACCOUNT}/{QUEUE}" if name is None else said.get(name, "") for name in names]
    right = hmac.new(base64.b64decode(KEY), "\n".join(parts).encode(), hashlib.sha256).digest()
    return hmac.compare_digest(said.get("sig", ""), base64.b64encode(right).decode())


def refused(status: int, code: str) -> web.Response:
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
    headers = {"x-ms-error-code": code}
    return web.Response(status=status, text=body, content_type="application/xml", headers=headers)


async def storage(request: web.Request) -> web.Response:
    if not is_signed(request):
        return refused(403, "AuthenticationFailed")
    return web.Response(status=201, text=STORED, content_type="application/xml")


async def no_queue(_request: web.Request) -> web.Response:
    return refused(404, "QueueNotFound")


def action(sas: str, message: str = "grüezi & <b>", account: str = ACCOUNT) -> dict[str, Any]:
    said = {"storageAccount": account, "queueName": QUEUE, "sasToken": sas, "message": message}
    return {"type": "StorageQueue", "queueMessage": said, "retryPolicy": NONE}


def at(url: str) -> dict[str, Any]:
    return {"job_storage_endpoint": f"{url}/{{account}}"}


async def test_a_message_arrives_signed_and_in_the_envelope_of_the_original_service(
    run_jobs: RunJobs, service: HttpService, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    service.answers = [storage]
    sas = token()

    async with run_jobs(**at(service.url)) as jobs:
        await jobs.put(action(f"?{sas}"))
        [entry] = await jobs.attempts(1)
        await jobs.ended()

    [request] = service.asked
    text = ET.fromstring(await request.text()).findtext("MessageText") or ""
    inner = ET.fromstring(text.partition("?>")[2])
    assert (request.method, request.path) == ("POST", f"/{ACCOUNT}/{QUEUE}/messages")
    assert text.startswith('<?xml version="1.0" encoding="utf-16"?>')
    assert (inner.findtext("Message"), inner.findtext("SchedulerJobId")) == ("grüezi & <b>", "j")
    assert entry.status is EntryStatus.COMPLETED
    assert entry.message == "StorageQueue Action - Message to account 'shop1', queue 'orders' succeeded."
    assert sas.rpartition("sig=")[2] not in caplog.text


async def test_with_a_wrong_signature_the_attempt_fails_and_nobody_reads_the_token(
    run_jobs: RunJobs, service: HttpService, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    service.answers = [storage]
    sas = token(base64.b64encode(b"another key").decode())

    async with run_jobs(**at(service.url)) as jobs:
        await jobs.put(action(sas))
        [entry] = await jobs.attempts(1)

    assert entry.status is EntryStatus.FAILED
    assert entry.message.endswith("queue 'orders' failed: 'Forbidden' AuthenticationFailed")
    assert len(service.asked) == 1
    assert sas.rpartition("sig=")[2] not in caplog.text


async def test_a_queue_that_is_not_there_is_named(run_jobs: RunJobs, service: HttpService):
    service.answers = [no_queue]

    async with run_jobs(**at(service.url)) as jobs:
        await jobs.put(action(token()))
        [entry] = await jobs.attempts(1)

    assert entry.message == "StorageQueue Action - The queue 'orders' of account 'shop1' does not exist."


async def test_what_is_no_account_is_not_made_part_of_an_address(run_jobs: RunJobs, service: HttpService):
    async with run_jobs(**at(service.url)) as jobs:
        await jobs.put(action(token(), account="evil.example/"))
        [entry] = await jobs.attempts(1)

    assert "The account 'evil.example/' could not be found" in entry.message
    assert service.asked == []


async def test_a_service_that_is_away_costs_the_attempt(run_jobs: RunJobs):
    async with run_jobs(**at(f"http://127.0.0.1:{dead_port()}")) as jobs:
        await jobs.put(action(token()), name="away")
        [away] = await jobs.attempts(1, "away")

    assert "failed: ConnectFailure Unable to connect" in away.message


async def test_a_service_that_hangs_is_waited_for_as_long_as_the_setting_says(
    run_jobs: RunJobs, service: HttpService
):
    service.answers = [never]

    async with run_jobs(job_http_timeout="300ms", **at(service.url)) as jobs:
        await jobs.put(action(token()))
        [entry] = await jobs.attempts(1)

    assert "failed: Timeout The operation has timed out" in entry.message


async def test_without_the_package_the_history_says_how_to_get_it(
    run_jobs: RunJobs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(sys.modules, "backstay.jobs.storage_queue_action", raising=False)
    monkeypatch.setitem(sys.modules, "azure.storage.queue.aio", None)

    async with run_jobs() as jobs:
        await jobs.put(action(token()))
        [entry] = await jobs.attempts(1)

    assert "pip install 'backstay[azure]'" in entry.message
