"""What the interface says of itself and of its process: OpenAPI, a page, metrics, health."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
from datetime import timedelta

import pytest

from backstay.api.arm import routes as arm_routes
from backstay.api.routes import ROUTES as OUR_ROUTES
from backstay.domain.breaker import BreakerState
from backstay.errors import StoreUnavailable
from backstay.observe import LATE_REPLY, emit
from backstay.store.base import AgentReport, Report
from backstay.testing.promises.holder import Holder
from backstay.web.problems import STORE_AWAY
from tests.support.serving import Served

ROUTES = (*OUR_ROUTES, *arm_routes.ROUTES)

# Documents


async def test_patterns_are_written_as_every_reader_of_the_document_knows_them(served: Served):
    patterns = re.findall(rb'"pattern":"([^"]+)"', (await served.get("/openapi.json")).body)

    assert patterns
    assert not [one for one in patterns if re.search(rb"\\[AZz]|\(\?P", one)]


async def test_every_route_is_in_the_document_with_what_may_come_of_it(served: Served):
    document = (await served.get("/openapi.json")).json

    assert document["openapi"] == "3.1.0"
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert {"500", "503"} <= set(operation["responses"])


async def test_names_of_operations_are_unique(served: Served):
    paths = (await served.get("/openapi.json")).json["paths"]
    names = [operation["operationId"] for methods in paths.values() for operation in methods.values()]

    assert len(names) == len(set(names))


async def test_every_reference_in_the_document_leads_somewhere(served: Served):
    answer = await served.get("/openapi.json")

    wanted = set(re.findall(r'"#/components/schemas/([^"]+)"', answer.body.decode()))
    assert wanted
    assert wanted <= set(answer.json["components"]["schemas"])


async def test_the_page_shows_every_path_and_needs_nothing_from_elsewhere(served: Served):
    answer = await served.get("/docs")
    page = answer.body.decode()

    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert all(route.path in page for route in ROUTES)
    assert not re.search(r"<script|https?://|src=|href=", page)


async def test_the_page_may_use_its_own_style_and_nothing_else(served: Served):
    answer = await served.get("/docs")

    [style] = re.findall(r"<style>(.*?)</style>", answer.body.decode(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert answer.headers["Content-Security-Policy"].startswith(
        f"default-src 'none'; style-src 'sha256-{digest}'"
    )


# Metrics


async def test_metrics_are_counted_per_process(served: Served, alice: Holder):
    await served.put("/v1/tasks/t", {"workflow": "anything"})
    stands = AgentReport(
        in_flight=0, waiting=0, concurrency=None, breaker=BreakerState.OPEN, open_until=served.clock.now()
    )
    paced = AgentReport(
        in_flight=0,
        waiting=0,
        concurrency=7,
        breaker=BreakerState.CLOSED,
        open_until=None,
        concurrency_max=50,
    )
    report = Report(agents={"bank": stands, "drone": paced})
    await served.store.beat(alice.owner, now=served.clock.now(), report=report)
    before = await _metrics(served)
    emit(LATE_REPLY)
    after = await _metrics(served)

    assert after["backstay_late_replies_total"] == before["backstay_late_replies_total"] + 1
    assert "backstay_recoveries_total" in after
    assert after["backstay_backlog"] == 1
    assert after['backstay_breaker_open{agent="bank"}'] == 1
    assert after['backstay_agent_concurrency{agent="drone"}'] == 7
    assert 'backstay_agent_concurrency{agent="bank"}' not in after


async def _metrics(served: Served) -> dict[str, float]:
    answer = await served.get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.body.decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


# Health


async def test_a_process_that_works_is_well_and_ready(served: Served):
    health, ready = await served.get("/healthz"), await served.get("/readyz")

    assert (health.status, health.json["status"]) == (200, "ok")
    assert health.json["roles"] == {"scheduler": "ok", "agents": "ok", "supervisor": "ok"}
    assert (ready.status, ready.json) == (200, {"status": "ready"})


async def test_a_role_that_makes_no_progress_is_named(served: Served):
    served.health.silent = {"scheduler": "no progress since 12:00"}

    answer = await served.get("/healthz")

    assert (answer.status, answer.problem) == (503, "deaf")
    assert "scheduler: no progress since 12:00" in answer.detail
    assert answer.json["roles"] == {
        "scheduler": "no progress since 12:00",
        "agents": "ok",
        "supervisor": "ok",
    }
    assert (await served.get("/readyz")).status == 200


async def test_a_process_that_is_about_to_stop_is_well_but_not_ready(served: Served):
    served.health.draining = True

    assert (await served.get("/healthz")).status == 200
    answer = await served.get("/readyz")
    assert (answer.status, answer.problem) == (503, "not-ready")


async def test_who_cannot_reach_the_store_is_not_ready_and_says_no_more(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def fails(*, at_most: int) -> int:
        raise StoreUnavailable("postgresql://me@10.0.0.7/shop does not answer")

    monkeypatch.setattr(served.store, "backlog", fails)
    with caplog.at_level(logging.WARNING, logger="backstay"):
        answers = [await served.get("/readyz") for _ in range(5)]

    assert {(answer.status, answer.problem) for answer in answers} == {(503, "not-ready")}
    assert {answer.detail for answer in answers} == {STORE_AWAY}
    assert len([record for record in caplog.records if "10.0.0.7" in record.getMessage()]) == 1


async def test_readiness_is_known_again_within_a_second(served: Served, monkeypatch: pytest.MonkeyPatch):
    async def fails(*, at_most: int) -> int:
        raise StoreUnavailable("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(served.store, "backlog", fails)
        away = await served.get("/readyz")
    served.clock.pass_time(timedelta(seconds=1))

    assert (away.status, (await served.get("/readyz")).status) == (503, 200)


async def test_who_waits_for_the_store_too_long_is_not_ready(served: Served, monkeypatch: pytest.MonkeyPatch):
    async def never(*, at_most: int) -> int:
        await asyncio.get_running_loop().create_future()
        return 0

    monkeypatch.setattr(served.store, "backlog", never)
    monkeypatch.setattr("backstay.api.health.STORE_SECONDS", 0.05)

    assert (await served.get("/readyz")).status == 503


async def test_health_is_told_while_the_tokens_cannot_be_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    async def fails(_records: object) -> None:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(type(served.store.records), "tokens", fails)

    assert (await served.get("/healthz")).status == 200
    assert (await served.get("/v1/tasks")).status == 503
