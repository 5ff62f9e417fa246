"""How the REST API answers: api-versions, headers, errors, and who is let in."""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any

import pytest

from backstay.domain.access import Role
from backstay.errors import StoreUnavailable
from tests.support.arm import ROOT, Arm, error
from tests.support.databases import SqliteDatabase
from tests.support.job_documents import body

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
PROVIDER = "/subscriptions/S/providers/Microsoft.Scheduler"


@pytest.fixture
def database(sqlite_database: SqliteDatabase) -> SqliteDatabase:
    """No database has a say in it."""
    return sqlite_database


# Versions


@pytest.mark.parametrize("version", ["2016-03-01", "2016-01-01", "2014-08-01-preview"])
async def test_three_versions_are_known(arm: Arm, version: str):
    assert (await arm.get(version=version)).json == {"value": [], "nextLink": None}


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "MissingApiVersionParameter"),
        ("?api-version=", "MissingApiVersionParameter"),
        ("?api-version=2099-01-01", "InvalidApiVersionParameter"),
        ("?api-version=2016-03-01&api-version=2016-03-01", "InvalidApiVersionParameter"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_without_a_version_nothing_is_done(arm: Arm, query: str, code: str, method: str):
    await arm.made("jc1")

    answer = await arm.served.ask(method, f"{ROOT}/jc1{query}", {"location": "eastus"})

    assert error(answer)[:2] == (400, code)
    assert (await arm.get("/jc1")).json["location"] == "West US"


async def test_earlier_versions_have_other_skus(arm: Arm):
    def of(sku: str) -> Any:
        return {"location": "x", "properties": {"sku": {"name": sku}}}

    assert (await arm.put("/a", of("Premium"), version="2016-01-01")).status == 201
    assert error(await arm.put("/b", of("P10Premium"), version="2014-08-01-preview"))[:2] == (
        400,
        "BadRequest",
    )
    assert error(await arm.put("/b", of("Premium")))[:2] == (400, "BadRequest")
    # One that has it, keeps it.
    assert (await arm.patch("/a", {"tags": {}})).json["properties"]["sku"] == {"name": "Premium"}


async def test_the_provider_says_what_there_is(arm: Arm):
    answer = await arm.get(root=PROVIDER, version="2015-11-01")

    assert answer.status == 200
    assert answer.json["id"] == PROVIDER
    assert answer.json["namespace"] == "Microsoft.Scheduler"
    assert [one["resourceType"] for one in answer.json["resourceTypes"]] == [
        "jobcollections",
        "operations",
        "operationResults",
    ]
    for one in answer.json["resourceTypes"]:
        assert one["apiVersions"] == ["2016-03-01", "2016-01-01", "2014-08-01-preview"]
        assert "West US" in one["locations"]
    assert error(await arm.get(root=PROVIDER, version="yesterday"))[:2] == (400, "InvalidApiVersionParameter")


# Headers


async def test_every_answer_carries_what_clients_know(arm: Arm):
    read, refused, written = await arm.get(), await arm.get("/none"), await arm.put("/jc1", {"location": "x"})

    for answer in (read, refused, written):
        headers = answer.headers
        assert re.fullmatch(UUID, headers["x-ms-request-id"])
        assert re.fullmatch(UUID, headers["x-ms-correlation-request-id"])
        assert (
            headers["x-ms-routing-request-id"]
            == f"BACKSTAY:20300101T000000Z:{headers['x-ms-correlation-request-id']}"
        )
        assert headers["Cache-Control"] == headers["Pragma"] == "no-cache"
        assert headers["Expires"] == "-1"
        assert headers["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains"
        assert headers["Content-Type"] == "application/json; charset=utf-8"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "ETag" not in headers
    assert read.headers["x-ms-ratelimit-burst-remaining-scheduler-reads"] == "249"
    assert written.headers["x-ms-ratelimit-burst-remaining-scheduler-writes"] == "59"
    assert read.headers["x-ms-request-id"] != refused.headers["x-ms-request-id"]
    assert "x-ms-request-id" not in (await arm.served.get("/v1/tasks")).headers


async def test_ids_that_a_client_sends_come_back(arm: Arm):
    answer = await arm.get(
        x_ms_correlation_request_id="abc-1",
        x_ms_client_request_id="def-2",
        x_ms_return_client_request_id="true",
    )
    forged = await arm.get(x_ms_correlation_request_id="a b")

    assert answer.headers["x-ms-correlation-request-id"] == "abc-1"
    assert answer.headers["x-ms-client-request-id"] == "def-2"
    assert re.fullmatch(UUID, forged.headers["x-ms-correlation-request-id"])


# Errors


@pytest.mark.parametrize(
    "path",
    [
        "/subscriptions",
        "/subscriptions/S",
        "/subscriptions/S/resourceGroups/RG",
        "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachines",
        f"{ROOT}/jc1/jobs/j1/history/1",
        "/SUBSCRIPTIONS/S/nothing",
    ],
)
async def test_a_path_that_leads_nowhere_is_told_in_the_words_of_the_original(arm: Arm, path: str):
    answer = await arm.served.get(f"{path}?api-version=2016-03-01")

    assert error(answer) == (
        404,
        "InvalidRequestUri",
        f"The request uri is invalid. The requested path '{path}' is not found.",
    )


async def test_a_method_that_a_path_does_not_take(arm: Arm):
    answer = await arm.ask("POST", "/jc1")

    assert error(answer)[:2] == (405, "InvalidHttpVerb")
    assert answer.headers["Allow"] == "DELETE, GET, HEAD, PATCH, PUT"


@pytest.mark.parametrize("text", [b"{", b"", b"nonsense", b"{} {}", b'\xff"'])
async def test_a_body_that_is_not_json(arm: Arm, text: bytes):
    await arm.made("jc1")

    answer = await arm.ask("PUT", "/jc1/jobs/j1", data=text, Content_Type="application/json")

    expected = "BadRequest" if text == b"" else "InvalidRequestContent"
    assert error(answer)[:2] == (400, expected)
    assert await arm.names("/jc1/jobs") == []


@pytest.mark.parametrize("text", [b'{"location": "x", "location": "y"}', b'{"location": "\\u0000"}'])
async def test_a_body_that_two_would_read_differently(arm: Arm, text: bytes):
    answer = await arm.ask("PUT", "/jc1", data=text, Content_Type="application/json")

    assert error(answer)[:2] == (400, "BadRequest")
    assert await arm.names() == []


async def test_a_body_of_another_type_or_too_long(arm: Arm):
    form = await arm.ask("PUT", "/jc1", data=b'{"location": "x"}', Content_Type="text/plain")
    long = await arm.ask("PUT", "/jc1", data=BytesIO(b" " * 2_000_000), Content_Type="application/json")

    assert error(form)[:2] == (415, "UnsupportedMediaType")
    assert error(long)[:2] == (413, "RequestEntityTooLarge")
    assert await arm.names() == []


async def test_a_store_that_does_not_answer(arm: Arm, monkeypatch: pytest.MonkeyPatch):
    async def fails(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("postgresql://me@10.0.0.7/shop does not answer")

    monkeypatch.setattr(arm.served.store.jobs, "collections", fails)
    answer = await arm.get()

    status, code, message = error(answer)
    assert (status, code) == (503, "ServerBusy")
    assert "10.0.0.7" not in message
    assert answer.headers["Retry-After"] == "1"


async def test_a_mistake_of_ours(arm: Arm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    async def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(arm.served.store.jobs, "collections", fails)
    answer = await arm.get()

    assert error(answer)[:2] == (500, "InternalError")
    assert b"secret" not in answer.body
    assert "ZeroDivisionError" in caplog.text


# Access


async def test_without_a_token_everybody_is_asked_for_one(arm: Arm):
    await arm.served.token("me", Role.ADMIN)
    nobody, wrong = await arm.get(), await Arm(arm.served, "wrong").get()

    for answer in (nobody, wrong):
        assert error(answer)[:2] == (401, "AuthenticationFailed")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert re.fullmatch(UUID, answer.headers["x-ms-request-id"])


async def test_who_may_read_may_look_and_who_may_operate_may_change(arm: Arm):
    reader = Arm(arm.served, await arm.served.token("reader", Role.READ))
    submitter = Arm(arm.served, await arm.served.token("submitter", Role.SUBMIT))
    operator = Arm(arm.served, await arm.served.token("operator", Role.OPERATE))
    await operator.made("jc1")

    assert (await reader.get("/jc1")).status == 200
    for weak in (reader, submitter):
        for answer in (
            await weak.put("/jc2", {"location": "x"}),
            await weak.patch("/jc1", {}),
            await weak.delete("/jc1"),
            await weak.post("/jc1/disable"),
            await weak.put("/jc1/jobs/j1", body()),
        ):
            assert error(answer)[:2] == (403, "AuthorizationFailed")
    assert (await operator.put("/jc1/jobs/j1", body())).status == 201
    assert await operator.names("/jc1/jobs") == ["jc1/j1"]
    trail = (await operator.served.get("/v1/audit", token=operator.token)).json["items"]
    assert trail[0]["who"] == "token:operator"


async def test_pages_of_another_site_may_not_ask(arm: Arm):
    answer = await arm.get(Origin="http://evil.example")

    assert error(answer)[:2] == (403, "AuthorizationFailed")
