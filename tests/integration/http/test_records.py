"""Alerts, the audit trail and tokens over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from backstay.domain.alert import AlertKind, of_task
from backstay.testing.promises.holder import Holder
from tests.integration.http.conftest import held
from tests.support.serving import Served


@pytest.fixture
async def alerted(served: Served, alice: Holder) -> None:
    """Three people were called for."""
    task = await held(served, alice)
    # Of different steps: two of the same trouble are one alert.
    alerts = [
        of_task(AlertKind.TASK_ERROR, "t", message=f"number {number}", step=f"s:{number}")
        for number in range(3)
    ]
    await alice.write(task, alerts=alerts)


@pytest.mark.usefixtures("alerted")
async def test_alerts_are_listed_newest_first_page_by_page(served: Served):
    first = (await served.get("/v1/alerts?limit=2")).json
    second = (await served.get(f"/v1/alerts?limit=2&cursor={first['next']}")).json

    assert [alert["message"] for alert in first["items"]] == ["number 2", "number 1"]
    assert [alert["message"] for alert in second["items"]] == ["number 0"]
    assert second["next"] is None


@pytest.mark.usefixtures("alerted")
async def test_an_alert_is_taken_up_once(served: Served):
    newest = (await served.get("/v1/alerts?open=true")).json["items"][0]

    taken = await served.post(f"/v1/alerts/{newest['id']}/acknowledge", {"reason": "I look into it"})
    again = await served.post(f"/v1/alerts/{newest['id']}/acknowledge")

    assert (taken.status, taken.json["acknowledged_by"]) == (200, "loopback")
    assert again.json == taken.json
    assert len((await served.get("/v1/alerts?open=true")).json["items"]) == 2
    assert len((await served.get("/v1/alerts?open=false")).json["items"]) == 3


@pytest.mark.parametrize(
    ("id", "status"),
    [("17", 404), ("0", 422), ("-1", 422), ("x", 422), ("1.0", 422), ("9223372036854775808", 422)],
)
async def test_an_alert_that_does_not_exist_cannot_be_taken_up(served: Served, id: str, status: int):
    answer = await served.post(f"/v1/alerts/{id}/acknowledge")

    assert answer.status == status
    assert answer.problem == ("unknown-alert" if status == 404 else "invalid-input")


@pytest.mark.parametrize("query", ["open=maybe", "open=1", "limit=0", "cursor=x", "colour=red"])
async def test_a_query_for_alerts_must_mean_something(served: Served, query: str):
    assert (await served.get(f"/v1/alerts?{query}")).status == 422


async def test_the_trail_is_listed_newest_first_page_by_page(served: Served):
    for move in ("pause", "resume"):
        await served.post(f"/v1/agents/stock/{move}")
    await served.post("/v1/workflows/order/pause")

    first = (await served.get("/v1/audit?limit=2")).json
    second = (await served.get(f"/v1/audit?limit=2&cursor={first['next']}")).json
    of_agent = (await served.get("/v1/audit?target=agent:stock")).json

    assert [entry["target"] for entry in first["items"]] == ["workflow:order", "agent:stock"]
    assert [entry["action"] for entry in second["items"]] == ["pause"]
    assert [entry["action"] for entry in of_agent["items"]] == ["resume", "pause"]
    assert (await served.get("/v1/audit?target=nobody")).json == {"items": [], "next": None}


# Tokens


async def test_the_first_token_locks_the_door_at_once(served: Served):
    created = await served.post("/v1/tokens", {"name": "me", "role": "admin"})
    secret = created.json["token"]

    assert (created.status, created.json) == (201, {"token": secret, "name": "me", "role": "admin"})
    assert (await served.get("/v1/tokens")).status == 401

    listed = await served.get("/v1/tokens", token=secret)
    [token] = listed.json["items"]
    assert (token["name"], token["role"], token["revoked_at"]) == ("me", "admin", None)
    assert secret.encode() not in listed.body


async def test_a_revoked_token_opens_nothing_and_the_door_stays_locked(served: Served):
    mine = (await served.post("/v1/tokens", {"name": "me", "role": "admin"})).json["token"]
    other = (await served.post("/v1/tokens", {"name": "ci", "role": "admin"}, token=mine)).json["token"]

    revoked = await served.ask("DELETE", "/v1/tokens/me", token=other)
    again = await served.ask("DELETE", "/v1/tokens/me", token=other)
    own = await served.ask("DELETE", "/v1/tokens/ci", token=other)

    assert (revoked.status, revoked.body, again.status, own.status) == (204, b"", 204, 204)
    assert (await served.get("/v1/tasks", token=mine)).status == 401
    assert (await served.get("/v1/tasks", token=other)).status == 401
    assert (await served.get("/v1/tasks")).status == 401


async def test_the_trail_names_the_token(served: Served):
    mine = (await served.post("/v1/tokens", {"name": "me", "role": "admin"})).json["token"]
    await served.post("/v1/agents/stock/pause", token=mine)

    items = (await served.get("/v1/audit", token=mine)).json["items"]

    assert [(entry["who"], entry["target"]) for entry in items] == [
        ("token:me", "agent:stock"),
        ("loopback", "token:me"),
    ]
    assert mine not in str(items)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"name": "me", "role": "king"}, 422, "$.role"),
        ({"name": "a b", "role": "read"}, 422, "$.name"),
        ({"name": "me"}, 422, "role"),
        ({"name": "me", "role": "read", "token": "x"}, 422, "token"),
        ({}, 422, "name"),
    ],
)
async def test_a_token_that_cannot_be_is_not_made(served: Served, body: Any, status: int, said: str):
    answer = await served.post("/v1/tokens", body)

    assert answer.status == status
    assert said in answer.detail
    assert (await served.get("/v1/tokens")).json["items"] == []


async def test_a_name_is_taken_once(served: Served):
    mine = (await served.post("/v1/tokens", {"name": "me", "role": "admin"})).json["token"]

    answer = await served.post("/v1/tokens", {"name": "me", "role": "read"}, token=mine)

    assert (answer.status, answer.problem) == (409, "conflict")


async def test_a_token_that_does_not_exist_cannot_be_revoked(served: Served):
    answer = await served.ask("DELETE", "/v1/tokens/nobody")

    assert (answer.status, answer.problem) == (404, "unknown-token")
