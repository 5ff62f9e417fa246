"""One request of a webhook: it goes where the settings say, and nowhere else."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from aiohttp import web

from backstay import Outbound
from backstay.clock import SystemClock
from backstay.domain.alert import Alert, AlertKind
from backstay.domain.sinks import Webhook
from backstay.supervisor.sinks import NotTold
from backstay.supervisor.webhook import WebhookSink
from tests.support.job_records import NOON
from tests.support.names import rebinding
from tests.support.service import HOST, HttpService, dead_port, http_service, never, says

MIB = 1024 * 1024
ALERT = Alert(
    id=1,
    kind=AlertKind.TASK_ERROR,
    target="task:o1",
    task_id="o1",
    step=None,
    message="m",
    at=NOON,
    last_at=NOON,
)


@pytest.fixture
async def service() -> AsyncIterator[HttpService]:
    async with http_service() as receiver:
        yield receiver


@asynccontextmanager
async def sink(url: str, *allow: str, seconds: float = 5) -> AsyncIterator[WebhookSink]:
    made = WebhookSink(
        Webhook(url), outbound=Outbound(allow), timeout=timedelta(seconds=seconds), clock=SystemClock()
    )
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f000001", "0.0.0.0"])
async def test_no_spelling_of_an_inner_address_is_reached(service: HttpService, host: str):
    async with sink(f"http://{host}:{service.port}/hook") as webhook:
        with pytest.raises(NotTold, match="not public"):
            await webhook.tell(ALERT)

    assert service.asked == []


@pytest.mark.parametrize("status", [302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_not_followed(service: HttpService, status: int):
    service.answers = [says(status, Location="/elsewhere"), says(200)]

    async with sink(f"{service.url}/hook", HOST) as webhook:
        with pytest.raises(NotTold, match=f"answered {status}"):
            await webhook.tell(ALERT)

    assert [one.path for one in service.asked] == ["/hook"]


async def test_a_receiver_that_hangs_is_waited_for_as_long_as_the_setting_says(service: HttpService):
    service.answers = [never]

    async with sink(f"{service.url}/hook", HOST, seconds=0.2) as webhook:
        with pytest.raises(NotTold, match="no answer within 200ms"):
            await webhook.tell(ALERT)


async def test_the_address_that_was_checked_is_the_one_that_is_connected_to(
    service: HttpService, monkeypatch: pytest.MonkeyPatch
):
    names = rebinding(monkeypatch, HOST, "127.0.0.2")
    url = f"http://rebind.test:{service.port}/hook"

    async with sink(url, HOST) as webhook:
        await webhook.tell(ALERT)
    async with sink(url, HOST) as webhook:
        with pytest.raises(NotTold, match="not public"):
            await webhook.tell(ALERT)

    assert names.asked == 2
    assert len(service.asked) == 1


async def test_of_an_answer_without_end_the_status_counts_and_nothing_else_is_read(service: HttpService):
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(MIB))

    service.answers = [endless]
    tracemalloc.start()
    try:
        async with sink(f"{service.url}/hook", HOST) as webhook:
            await webhook.tell(ALERT)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 16 * MIB  # The receiver's own pieces are in it.


async def test_a_proxy_that_the_environment_names_is_not_asked(
    service: HttpService, monkeypatch: pytest.MonkeyPatch
):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, service.url)

    async with sink(f"http://{HOST}:{dead_port()}/hook", HOST) as webhook:
        with pytest.raises(NotTold, match="could not connect"):
            await webhook.tell(ALERT)

    assert service.asked == []


@pytest.mark.parametrize(
    "address", ["http://a..example/", f"http://{'a' * 64}.example/", "http://a.example:99999/"]
)
async def test_an_address_that_nobody_can_look_up_is_a_failure_like_any_other(address: str):
    async with sink(address) as webhook:
        with pytest.raises(NotTold, match=r"the address cannot be read|could not be resolved"):
            await webhook.tell(ALERT)
