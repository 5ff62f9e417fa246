"""Jobs that show who they are to real receivers: by a certificate in TLS, and by a token."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trustme
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.support.job_documents import pfx_of
from tests.support.running_jobs import RunJobs
from tests.support.service import HttpService, http_service, says

NONE = {"retryType": "None"}
OAUTH = {
    "type": "ActiveDirectoryOAuth",
    "tenant": "contoso.example",
    "audience": "https://orders",
    "clientId": "c",
    "secret": "hunter2",
}
TOKEN = '{"access_token": "t0ken", "expires_in": "3600"}'


def asking(url: str, authentication: dict[str, Any], kind: str = "Http") -> dict[str, Any]:
    request = {"uri": url, "method": "GET", "authentication": authentication}
    return {"type": kind, "request": request, "retryPolicy": NONE}


@asynccontextmanager
async def demanding(authority: trustme.CA) -> AsyncIterator[tuple[str, list[Any]]]:
    """A receiver that speaks with nobody without a certificate: its address, and whom it saw."""
    seen: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        seen.append(request.transport.get_extra_info("peercert")["subject"])
        return web.Response()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    authority.issue_cert("localhost").configure_cert(context)
    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "localhost", 0, ssl_context=context).start()
        yield f"https://localhost:{runner.addresses[0][1]}/", seen
    finally:
        await runner.cleanup()


def issued(authority: trustme.CA) -> str:
    made = authority.issue_cert("client.example", common_name="nightly")
    key = load_pem_private_key(made.private_key_pem.bytes(), None)
    return pfx_of(key, x509.load_pem_x509_certificate(made.cert_chain_pems[0].bytes()), "hunter2")


async def test_a_receiver_sees_the_certificate_of_the_job(run_jobs: RunJobs, authority: trustme.CA):
    pfx = issued(authority)
    shown = {"type": "ClientCertificate", "pfx": pfx, "password": "hunter2"}

    async with demanding(authority) as (url, seen), run_jobs() as jobs:
        job = await jobs.put(asking(url, shown, "Https"))
        await jobs.ended()
        [entry] = await jobs.calendar.history()

    assert "'OK'" in entry.message
    assert "nightly" in str(seen)
    answered = job.definition["action"]["request"]["authentication"]
    assert "nightly" in answered["certificateSubjectName"]
    assert {"pfx", "password"}.isdisjoint(answered)


async def test_without_a_certificate_that_receiver_speaks_with_nobody(
    run_jobs: RunJobs, authority: trustme.CA
):
    async with demanding(authority) as (url, seen), run_jobs() as jobs:
        await jobs.put(asking(url, {"type": "NotSpecified"}, "Https"))
        await jobs.ended()
        [entry] = await jobs.calendar.history()

    assert "'OK'" not in entry.message
    assert seen == []


async def test_a_token_is_asked_for_once_and_borne_until_it_is_refused(
    run_jobs: RunJobs, service: HttpService
):
    service.answers = [says(200), says(401), says(200)]

    async with http_service(says(200, TOKEN)) as tokens, run_jobs(job_oauth_authority=tokens.url) as jobs:
        for number, asked in enumerate((1, 1, 2)):
            await jobs.put(asking(service.url, OAUTH), f"j{number}")
            await jobs.attempts(1, f"j{number}")
            assert len(tokens.asked) == asked
        form = await tokens.asked[0].post()

    assert service.headers("Authorization") == ["Bearer t0ken"] * 3
    assert tokens.asked[0].path == "/contoso.example/oauth2/token"
    assert (form["grant_type"], form["client_id"]) == ("client_credentials", "c")
    assert (form["client_secret"], form["resource"]) == ("hunter2", "https://orders")


@pytest.mark.parametrize("answer", [says(401, "leak"), says(200, "leak"), says(302, Location="/leak")])
async def test_without_a_token_nothing_is_sent_and_nothing_of_the_answer_is_told(
    run_jobs: RunJobs, service: HttpService, answer: Any
):
    async with http_service(answer) as tokens, run_jobs(job_oauth_authority=tokens.url) as jobs:
        await jobs.put(asking(service.url, OAUTH))
        await jobs.ended()
        history = await jobs.calendar.history()

    assert "no token came from '127.0.0.1'" in history[0].message
    assert service.asked == []
    assert b"leak" not in msgspec.json.encode(history)
    assert b"hunter2" not in msgspec.json.encode(history)
