"""Messages to a queue of Azure Storage: a double of it that recomputes every signature."""

from __future__ import annotations

import base64
import logging
import sys
import tracemalloc
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from backstay import Outbound
from backstay.domain.jobs.messages import ADDRESS_REFUSED
from backstay.domain.jobs.records import EntryStatus
from backstay.jobs.storage_queue_action import StorageQueueAction
from backstay.jobs.tried import Tried
from tests.support.running_jobs import RunJobs
from tests.support.service import HttpService, dead_port, http_service, never, says
from tests.support.storage_queue import ACCOUNT, QUEUE, envelope, storage, token

NONE = {"retryType": "None"}
MIB = 1024 * 1024


def action(sas: str, message: str = "grüezi & <b>", account: str = ACCOUNT) -> dict[str, Any]:
    said = {"storageAccount": account, "queueName": QUEUE, "sasToken": sas, "message": message}
    return {"type": "StorageQueue", "queueMessage": said, "retryPolicy": NONE}


def at(url: str) -> dict[str, Any]:
    return {"job_storage_endpoint": f"{url}/{{account}}"}


async def sent(service: HttpService, *, queue: str = QUEUE) -> Tried:
    """What becomes of one attempt, and nothing around it."""
    made = StorageQueueAction(
        endpoint=f"{service.url}/{{account}}", timeout=timedelta(seconds=10), outbound=Outbound(("loopback",))
    )
    return await made.send({"storageAccount": ACCOUNT, "queueName": queue}, "m", token=token())


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
    inner = await envelope(request)
    assert (request.method, request.path) == ("POST", f"/{ACCOUNT}/{QUEUE}/messages")
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
    service.answers = [storage]
    other = action(token(queue="none"))
    other["queueMessage"]["queueName"] = "none"

    async with run_jobs(**at(service.url)) as jobs:
        await jobs.put(other)
        [entry] = await jobs.attempts(1)

    assert entry.message == "StorageQueue Action - The queue 'none' of account 'shop1' does not exist."


async def test_a_token_of_another_queue_is_refused(run_jobs: RunJobs, service: HttpService):
    service.answers = [storage]

    async with run_jobs(**at(service.url)) as jobs:
        await jobs.put(action(token(queue="none")))
        [entry] = await jobs.attempts(1)

    assert entry.message.endswith("failed: 'Forbidden' AuthenticationFailed")


async def test_an_address_that_is_not_public_is_not_reached_unless_it_is_allowed(
    run_jobs: RunJobs, service: HttpService
):
    async with run_jobs(outbound_allow="", **at(service.url)) as jobs:
        await jobs.put(action(token()))
        [entry] = await jobs.attempts(1)

    assert ADDRESS_REFUSED in entry.message
    assert service.asked == []


async def test_what_is_no_account_is_not_made_part_of_an_address(run_jobs: RunJobs, service: HttpService):
    async with run_jobs(**at(service.url)) as jobs:
        await jobs.put(action(token(), account="evil.example/"))
        [entry] = await jobs.attempts(1)

    assert "The account 'evil.example/' could not be found" in entry.message
    assert service.asked == []


@pytest.mark.parametrize("queue", ["../none", "orders?", "Orders", "o", "a/b"])
async def test_nor_is_what_is_no_queue(service: HttpService, queue: str):
    tried = await sent(service, queue=queue)

    assert tried.message == f"StorageQueue Action - The queue '{queue}' of account 'shop1' does not exist."
    assert service.asked == []


@pytest.mark.parametrize("packed", [False, True])
async def test_an_answer_without_end_is_not_read_to_its_end(service: HttpService, packed: bool):
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=403)
        if packed:
            response.enable_compression(web.ContentCoding.gzip)
        response.content_type = "application/xml"
        await response.prepare(request)
        while True:
            await response.write(bytes(MIB))

    service.answers = [endless]
    tracemalloc.start()
    try:
        tried = await sent(service)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert tried.message.endswith("failed: ReceiveFailure The answer did not come, or cannot be read")
    assert most < 32 * MIB  # The receiver's own pieces are in it.


async def test_an_answer_that_says_nothing_is_told_by_its_status(
    service: HttpService, caplog: pytest.LogCaptureFixture
):
    service.answers = [says(403)]

    tried = await sent(service)

    assert tried.message.endswith("queue 'orders' failed: 'Forbidden'")
    assert caplog.text == ""


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


async def test_neither_a_proxy_nor_a_redirect_leads_the_token_elsewhere(
    run_jobs: RunJobs, service: HttpService, monkeypatch: pytest.MonkeyPatch
):
    async with http_service() as elsewhere:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, elsewhere.url)
        service.answers = [says(307, Location=f"{elsewhere.url}/{ACCOUNT}/{QUEUE}/messages")]

        async with run_jobs(**at(service.url)) as jobs:
            await jobs.put(action(token()))
            [entry] = await jobs.attempts(1)

    assert entry.status is EntryStatus.FAILED
    assert len(service.asked) == 1
    assert elsewhere.asked == []
