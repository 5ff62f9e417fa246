"""The services of the drone delivery keep what they promise, over HTTP, under faults and across kill -9."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from yarl import URL

from drone_delivery.services.books import (
    Assignment,
    Calls,
    KeptCheck,
    KeptDelivery,
    KeptPackage,
    count_calls,
    read_books,
)
from tests.support.drone_calls import FAR, HERE, NEAR, OWNER, THINGS, Answer, Caller, new_id, stages_of, thing
from tests.support.drone_services import (
    Services,
    child_environment,
    command,
    services_running,
)
from tests.support.ports import HOST, free_ports
from tests.support.running import comes_true, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: A second at most, and what a busy machine takes to start and end an interpreter.
STOP_SECONDS_MAX = 5.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Services]:
    async with services_running(tmp_path_factory.mktemp("services")) as running:
        yield running


@pytest.fixture
def caller(services: Services) -> Caller:
    return Caller(services)


# Account


async def test_an_account_is_active_until_somebody_says_otherwise(caller: Caller):
    """DD-21."""
    path = f"/api/account/{new_id()}"

    unknown = await caller.ask("account", "GET", path)
    closed = await caller.ask("account", "PUT", path, False)
    seen_closed = await caller.ask("account", "GET", path)
    opened = await caller.ask("account", "PUT", path, True)
    seen_open = await caller.ask("account", "GET", path)

    assert (unknown.status, unknown.json) == (200, True)
    assert (closed.status, closed.body) == (201, b"")
    assert (seen_closed.status, seen_closed.json) == (200, False)
    assert opened.status == 204
    assert seen_open.json is True


# Package


async def test_a_package_is_created_replaced_and_read(caller: Caller):
    """DD-14, DD-15."""
    thing_id = new_id()

    created = await caller.put("package", thing_id)
    replaced = await caller.put("package", thing_id, weight=7, size="LARGE")
    read = await caller.get("package", thing_id)

    assert (created.status, created.json) == (201, thing("package", thing_id))
    assert (replaced.status, replaced.body) == (204, b"")
    assert (read.status, read.json) == (200, thing("package", thing_id, weight=7, size="large"))


async def test_a_package_may_leave_its_id_to_the_path(caller: Caller):
    """DD-14."""
    thing_id = new_id()
    body = thing("package", thing_id)
    del body["id"]

    created = await caller.ask("package", "PUT", f"/api/packages/{thing_id}", body)

    assert (created.status, created.json) == (201, thing("package", thing_id))


async def test_a_package_without_an_id_is_given_one_and_under_one_key_the_same(caller: Caller):
    """DD-14."""
    body = thing("package", "")
    del body["id"]
    key = new_id()

    first = await caller.ask("package", "PUT", "/api/packages", body, key=key)
    again = await caller.ask("package", "PUT", "/api/packages", body, key=key)
    other = await caller.ask("package", "PUT", "/api/packages", body)

    assert [first.status, again.status, other.status] == [201, 204, 201]
    assert first.json["id"] != other.json["id"]
    assert (await caller.get("package", first.json["id"])).json == first.json


async def test_a_cancelled_package_is_gone(caller: Caller):
    """DD-15."""
    thing_id = new_id()
    await caller.put("package", thing_id)

    cancelled = await caller.delete("package", thing_id)

    assert (cancelled.status, cancelled.body) == (204, b"")
    assert (await caller.get("package", thing_id)).status == 404


# Third-party transportation


@pytest.mark.parametrize(
    ("dropoff", "required"),
    [
        (NEAR, False),
        (FAR, True),
        # 0.899 degrees of latitude are 99.96 km, 0.9 are 100.08 km.
        (HERE | {"latitude": 52.5 + 0.899}, False),
        (HERE | {"latitude": 52.5 + 0.9}, True),
    ],
)
async def test_an_external_carrier_is_needed_beyond_the_range_of_a_drone(
    caller: Caller, dropoff: dict[str, float], required: bool
):
    """DD-22."""
    thing_id = new_id()

    asked = await caller.put("third-party", thing_id, dropoff=dropoff)
    read = await caller.get("third-party", thing_id)

    assert (asked.status, asked.json) == (200, required)
    assert (read.status, read.json) == (200, {"id": thing_id, "required": required})


async def test_a_third_party_check_is_replaced_under_the_same_id_and_cancelled(caller: Caller):
    """DD-22."""
    thing_id = new_id()
    await caller.put("third-party", thing_id, dropoff=NEAR)

    again = await caller.put("third-party", thing_id, dropoff=FAR)
    read = await caller.get("third-party", thing_id)
    cancelled = await caller.delete("third-party", thing_id)

    assert again.json is True
    assert read.json["required"] is True
    assert cancelled.status == 204
    assert (await caller.get("third-party", thing_id)).status == 404


# Drone


async def test_a_delivery_that_asks_again_gets_the_same_drone(caller: Caller, services: Services):
    """DD-18, DX-08: whoever repeats a PUT after a lost answer must not send out a second drone."""
    thing_id = new_id()

    first = await caller.put("drone", thing_id, key=f"{thing_id}/drone")
    again = await caller.put("drone", thing_id, key=f"{thing_id}/drone", expedited=False)
    read = await caller.get("drone", thing_id)

    assert (first.status, first.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert (again.status, again.body) == (200, first.body)
    assert read.json == {**thing("drone", thing_id, expedited=False), "droneId": first.body.decode()}
    [assignment] = [each for each in read_books(services.folder).assignments if each.delivery_id == thing_id]
    assert (assignment.drone_id, assignment.times, assignment.live) == (first.body.decode(), 1, True)
    assert assignment.package_id == f"package-of-{thing_id}"


async def test_no_two_deliveries_have_one_drone_and_a_released_one_flies_again(caller: Caller):
    """DD-18, DD-19."""
    ids = [new_id() for _ in range(10)]

    answers = await asyncio.gather(*(caller.put("drone", each) for each in ids))
    drones = [answer.body for answer in answers]
    released = await caller.delete("drone", ids[3])
    after = [(await caller.put("drone", new_id())).body for _ in range(2)]

    assert len(set(drones)) == 10
    assert (released.status, released.body) == (200, b"")
    assert (await caller.get("drone", ids[3])).status == 404
    assert drones[3] in after
    assert not set(after) & (set(drones) - {drones[3]})


# Delivery


async def test_a_delivery_is_created_once_however_often_it_is_put(caller: Caller, services: Services):
    """DX-07, DD-05, DD-06."""
    thing_id = new_id()

    created = await caller.put("delivery", thing_id)
    again = await caller.put("delivery", thing_id)
    changed = await caller.put("delivery", thing_id, deadline="tomorrow")
    read = await caller.get("delivery", thing_id)

    assert (created.status, created.json) == (201, thing("delivery", thing_id))
    assert created.headers["Location"] == f"/api/deliveries/{thing_id}"
    assert (again.status, again.body) == (204, b"")
    assert changed.status == 204
    assert (read.status, read.json) == (200, thing("delivery", thing_id, deadline="tomorrow"))
    [delivery] = [each for each in read_books(services.folder).deliveries if each.id == thing_id]
    assert (delivery.times_created, delivery.drone_id, delivery.live) == (1, "drone-1", True)


async def test_a_delivery_tells_its_owner_and_where_it_stands(caller: Caller):
    """DD-07, DD-08."""
    thing_id = new_id()
    await caller.put("delivery", thing_id)

    owner = await caller.get("delivery", thing_id, "/owner")
    status = await caller.get("delivery", thing_id, "/status")

    assert (owner.status, owner.json) == (200, OWNER)
    assert status.status == 200
    assert status.json.keys() == {"stage", "lastKnownLocation", "pickupETA", "deliveryETA"}
    assert (status.json["stage"], status.json["lastKnownLocation"]) == ("Created", HERE)
    pickup, delivery = (datetime.fromisoformat(status.json[name]) for name in ("pickupETA", "deliveryETA"))
    assert (delivery - pickup).total_seconds() == 50 * 60
    assert pickup.tzinfo is not None


async def test_a_cancelled_delivery_still_answers_and_says_so(caller: Caller, services: Services):
    """DD-10."""
    thing_id = new_id()
    await caller.put("delivery", thing_id)

    cancelled = await caller.delete("delivery", thing_id)
    again = await caller.delete("delivery", thing_id)

    assert [(each.status, each.body) for each in (cancelled, again)] == [(200, b""), (200, b"")]
    assert (await caller.get("delivery", thing_id)).json == thing("delivery", thing_id)
    assert (await caller.get("delivery", thing_id, "/status")).json["stage"] == "Cancelled"
    assert stages_of(services, thing_id) == ["Created", "Cancelled"]


@pytest.mark.parametrize("part", ["", "/owner", "/status"])
async def test_a_delivery_that_was_never_created_is_not_found(caller: Caller, part: str):
    """DD-06, DD-07, DD-08."""
    missing = await caller.get("delivery", new_id(), part)

    assert missing.status == 404
    assert "there is no delivery" in missing.detail


# Cancelled stays cancelled


@pytest.mark.parametrize("name", THINGS)
async def test_what_was_cancelled_cannot_be_put_again(caller: Caller, services: Services, name: str):
    thing_id = new_id()
    await caller.put(name, thing_id)
    cancelled = await caller.delete(name, thing_id)
    before = rows_of(services, name)

    late = await caller.put(name, thing_id)
    again = await caller.delete(name, thing_id)

    assert late.status == 409
    assert thing_id in late.detail
    assert "cancelled" in late.detail
    assert (again.status, again.body) == (cancelled.status, cancelled.body)
    assert rows_of(services, name) == before


@pytest.mark.parametrize("name", THINGS)
async def test_a_cancellation_that_overtakes_its_request_wins(caller: Caller, services: Services, name: str):
    thing_id = new_id()

    overtaking = await caller.delete(name, thing_id)
    before = rows_of(services, name)
    late = await caller.put(name, thing_id)
    again = await caller.delete(name, thing_id)

    assert (overtaking.status, late.status, again.status) == (404, 409, 404)
    assert thing_id in overtaking.detail
    assert (await caller.get(name, thing_id)).status == 404
    assert rows_of(services, name) == before
    assert thing_id not in kept_ids(services)


def kept_ids(services: Services) -> set[str]:
    """Whatever was ever kept by any service."""
    books = read_books(services.folder)
    return {
        *(package.id for package in books.packages),
        *(check.id for check in books.checks),
        *(assignment.delivery_id for assignment in books.assignments),
        *(delivery.id for delivery in books.deliveries),
    }


def rows_of(services: Services, name: str) -> list[tuple[Any, ...]]:
    """Everything that a service keeps, but for the calls."""
    with closing(sqlite3.connect(services.folder / f"{name}.db")) as connection:
        tables = ["record", *(["event"] if name in {"drone", "delivery"} else [])]
        tables += ["drone"] if name == "drone" else []
        return [row for table in tables for row in connection.execute(f"SELECT * FROM {table}")]


# Calls


async def test_calls_are_counted_by_their_key(caller: Caller, services: Services):
    thing_id, before = new_id(), count_calls(services.folder)

    await caller.put("package", thing_id, key=f"{thing_id}/put")
    await caller.put("package", thing_id, key=f"{thing_id}/put")
    await caller.put("package", thing_id)
    await caller.delete("package", thing_id, key=f"{thing_id}/undo")
    await caller.put("package", thing_id, key=f"{thing_id}/put")
    await caller.ask("account", "GET", f"/api/account/{thing_id}", key=f"{thing_id}/account")
    async with caller.disturbed("account", outage=True):
        await caller.ask("account", "GET", f"/api/account/{thing_id}", key=f"{thing_id}/account")

    after = count_calls(services.folder)
    assert (after.total - before.total, after.repeated - before.repeated) == (6, 3)
    assert read_books(services.folder).repeated == after.repeated
    query = "SELECT key, operation, times FROM call WHERE id = ? ORDER BY key"
    with closing(sqlite3.connect(services.folder / "package.db")) as connection:
        assert connection.execute(query, (thing_id,)).fetchall() == [
            (f"{thing_id}/put", "PUT /api/packages/{id}", 3),
            (f"{thing_id}/undo", "DELETE /api/packages/{id}", 1),
        ]


async def test_files_that_are_not_there_yet_hold_no_calls(tmp_path: Path):
    (tmp_path / "drone.db").touch()

    assert count_calls(tmp_path) == Calls(total=0, repeated=0)
    with pytest.raises(FileNotFoundError, match=r"account\.db"):
        read_books(tmp_path)


async def test_the_books_tell_what_is_live_and_what_was_cancelled(caller: Caller, services: Services):
    live, cancelled = new_id(), new_id()
    for name in THINGS:
        for each in (live, cancelled):
            await caller.put(name, each)
    drones = {each: (await caller.get("drone", each)).json["droneId"] for each in (live, cancelled)}
    for name in THINGS:
        await caller.delete(name, cancelled)

    books = read_books(services.folder)

    assert {KeptPackage(live, live=True), KeptPackage(cancelled, live=False)} <= set(books.packages)
    assert {
        KeptCheck(live, live=True, required=False),
        KeptCheck(cancelled, live=False, required=False),
    } <= set(books.checks)
    assert {
        Assignment(live, drones[live], f"package-of-{live}", live=True, times=1),
        Assignment(cancelled, drones[cancelled], f"package-of-{cancelled}", live=False, times=1),
    } <= set(books.assignments)
    assert {
        KeptDelivery(live, "drone-1", live=True, times_created=1),
        KeptDelivery(cancelled, "drone-1", live=False, times_created=1),
    } <= set(books.deliveries)


# What is not as it must be


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("package", {"weight": 0}, "weight"),
        ("package", {"weight": "heavy"}, "weight"),
        ("package", {"size": "huge"}, "size"),
        ("package", {"colour": "red"}, "colour"),
        ("package", {"id": "another"}, "id is 'another'"),
        ("package", {"id": None}, "id"),
        ("third-party", {"pickup": HERE | {"latitude": 91}}, "pickup.latitude"),
        ("third-party", {"pickup": None}, "pickup"),
        ("drone", {"deliveryId": "another"}, "deliveryId is 'another'"),
        ("drone", {"packageDetail": {"id": "p"}}, "packageDetail"),
        ("delivery", {"id": "another"}, "id is 'another'"),
        ("delivery", {"confirmationRequired": "Handshake"}, "confirmationRequired"),
        ("delivery", {"owner": {"userId": "", "accountId": "a"}}, "owner.userId"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_with_its_field_and_changes_nothing(
    caller: Caller, services: Services, name: str, changes: dict[str, Any], said: str
):
    thing_id = new_id()
    before = rows_of(services, name)

    refused = await caller.put(name, thing_id, **changes)

    assert refused.status == 400
    assert said in refused.detail
    assert rows_of(services, name) == before


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b'"\\ud800"', b"[" * 60_000, b"null", b"{} {}"],
    ids=lambda body: repr(body[:8]),
)
@pytest.mark.parametrize("path", ["package/api/packages/x1", "account/api/account/x1", "drone/faults"])
async def test_what_is_no_json_is_refused(caller: Caller, path: str, body: bytes):
    name, _, rest = path.partition("/")

    refused = await caller.ask(name, "PUT", f"/{rest}", body)

    assert refused.status == 400
    assert "the body" in refused.detail


@pytest.mark.parametrize("thing_id", ["a%20b", "%C3%A4", "x" * 101, "a%00b", "a'b"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_an_id_that_cannot_be_one_is_refused(caller: Caller, method: str, thing_id: str):
    path = URL(f"{caller.services.url('package')}/api/packages/{thing_id}", encoded=True)

    async with caller.services.session.request(method, path, data=b"{}") as response:
        refused = Answer(response.status, response.headers, await response.read())

    assert refused.status == 400
    assert "the id in the path" in refused.detail


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_that_is_too_large_is_refused(caller: Caller, announced: bool):
    thing_id, large = new_id(), msgspec.json.encode(thing("package", "p", tag="x" * 70_000))

    async def pieces() -> AsyncIterator[bytes]:
        yield large

    url = f"{caller.services.url('package')}/api/packages/{thing_id}"
    async with caller.services.session.put(url, data=large if announced else pieces()) as response:
        refused = Answer(response.status, response.headers, await response.read())

    assert refused.status == 413
    assert "65,536 bytes" in refused.detail
    assert (await caller.get("package", thing_id)).status == 404


async def test_a_key_that_is_too_long_is_refused(caller: Caller):
    refused = await caller.put("package", new_id(), key="k" * 1_001)

    assert refused.status == 400
    assert "Idempotency-Key" in refused.detail


async def test_unknown_paths_and_methods_are_told_apart(caller: Caller):
    unknown = await caller.ask("package", "GET", "/api/parcels/x")
    slash = await caller.ask("package", "GET", "/healthz/")
    wrong = await caller.ask("package", "POST", "/api/packages/x", {})

    assert (unknown.status, slash.status, wrong.status) == (404, 404, 405)
    assert "path" in unknown.detail
    assert wrong.headers["Allow"] == "DELETE, GET, HEAD, PUT"
    assert "not POST" in wrong.detail


# Faults


async def test_the_dial_is_replaced_as_a_whole_and_read_back(caller: Caller, services: Services):
    whole = {
        "latencyMs": {"median": 1.0, "p99": 2.0},
        "errorRate": 0.5,
        "outage": False,
        "hang": False,
        "forSeconds": None,
    }

    turned = await services.turn("account", **whole)
    read = await caller.ask("account", "GET", "/faults")
    back = await services.turn("account")

    assert turned == read.json == whole
    assert back == whole | {"latencyMs": None, "errorRate": 0.0}


async def test_a_dial_that_cannot_be_is_refused_and_the_old_one_stays(caller: Caller, services: Services):
    async with caller.disturbed("account", error_rate=0.25):
        refused = await caller.ask("account", "PUT", "/faults", {"errorRate": 2})
        read = await caller.ask("account", "GET", "/faults")

    assert refused.status == 400
    assert "errorRate" in refused.detail
    assert "<= 1" in refused.detail
    assert read.json["errorRate"] == 0.25


async def test_during_an_outage_nothing_is_done_and_the_process_is_healthy(caller: Caller):
    thing_id = new_id()

    async with caller.disturbed("package", outage=True):
        refused = await caller.put("package", thing_id)
        health = await caller.ask("package", "GET", "/healthz")

    assert (refused.status, health.status) == (503, 200)
    assert "outage" in refused.detail
    assert (await caller.get("package", thing_id)).status == 404


async def test_errors_come_before_the_work_or_lose_its_answer(caller: Caller, services: Services):
    ids = [new_id() for _ in range(60)]

    async with caller.disturbed("package", error_rate=1):
        answers = {each: await caller.put("package", each, key=f"{each}/put") for each in ids}

    assert {answer.status for answer in answers.values()} == {500, 503}
    assert all("fault dial" in answer.detail for answer in answers.values())
    assert kept_ids(services) & set(ids) == {each for each, answer in answers.items() if answer.status == 500}


async def test_latency_delays_the_answer(caller: Caller):
    async with caller.disturbed("account", latency_ms={"median": 300, "p99": 300}):
        began = time.monotonic()
        answer = await caller.ask("account", "GET", "/api/account/slow")
        took = time.monotonic() - began

    assert answer.status == 200
    assert took >= 0.3


async def test_a_slow_request_takes_effect_although_its_caller_has_given_up(
    caller: Caller, services: Services
):
    thing_id = new_id()

    async with caller.disturbed("package", latency_ms={"median": 4_000, "p99": 4_000}):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await caller.put("package", thing_id)
        done_early = thing_id in kept_ids(services)
        await comes_true(lambda: thing_id in kept_ids(services))

    assert not done_early


async def test_half_of_the_latency_lies_after_the_work(caller: Caller, services: Services):
    thing_id = new_id()

    async with caller.disturbed("package", latency_ms={"median": 3_000, "p99": 3_000}):
        putting = asyncio.create_task(caller.put("package", thing_id))
        await comes_true(lambda: thing_id in kept_ids(services))
        answered = putting.done()
        answer = await putting

    assert not answered
    assert answer.status == 201


async def test_a_request_that_hangs_is_let_go_when_the_dial_is_turned(caller: Caller, services: Services):
    thing_id = new_id()

    async with caller.disturbed("drone", hang=True):
        hanging = asyncio.create_task(caller.put("drone", thing_id))
        done, _ = await asyncio.wait({hanging}, timeout=0.3)
        await services.turn("drone")
        answer = await hanging

    assert not done
    assert answer.status == 503
    assert "hang" in answer.detail
    assert (await caller.get("drone", thing_id)).status == 404


async def test_a_request_that_hangs_is_forgotten_when_its_caller_hangs_up(caller: Caller, services: Services):
    thing_id = new_id()

    async with caller.disturbed("drone", hang=True):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await caller.put("drone", thing_id)

    assert (await caller.get("drone", thing_id)).status == 404


@pytest.mark.parametrize("fault", ["outage", "hang"])
async def test_an_outage_or_a_hang_ends_by_itself(caller: Caller, services: Services, fault: str):
    async with caller.disturbed("account", for_seconds=0.4, **{fault: True}):
        during = await caller.ask("account", "GET", "/api/account/a")
        await eventually(
            lambda: caller.ask("account", "GET", "/api/account/a"), lambda answer: answer.status == 200
        )
        dial = (await caller.ask("account", "GET", "/faults")).json

    assert during.status == 503
    assert (dial["outage"], dial["hang"], dial["forSeconds"]) == (False, False, None)


# Processes


async def test_kill_9_loses_nothing(caller: Caller, services: Services):
    ids = {name: new_id() for name in THINGS}
    cancelled = {name: new_id() for name in THINGS}
    await caller.ask("account", "PUT", "/api/account/closed", False)
    for name in THINGS:
        await caller.put(name, ids[name], key=f"{ids[name]}/put")
        await caller.delete(name, cancelled[name])
    drone = (await caller.get("drone", ids["drone"])).json["droneId"]
    dial = await services.turn("delivery", error_rate=0.0, outage=True, for_seconds=3_600)
    books, calls = read_books(services.folder), count_calls(services.folder)

    await asyncio.gather(*(services.kill(name) for name in services.ports))
    read_from_the_dead = read_books(services.folder), count_calls(services.folder)
    await asyncio.gather(*(services.start(name) for name in services.ports))

    assert read_from_the_dead == (read_books(services.folder), count_calls(services.folder)) == (books, calls)
    kept = (await caller.ask("delivery", "GET", "/faults")).json
    assert 3_500 < kept.pop("forSeconds") < dial.pop("forSeconds")
    assert kept == dial
    assert (await caller.get("delivery", ids["delivery"])).status == 503
    await services.turn("delivery")
    assert (await caller.ask("account", "GET", "/api/account/closed")).json is False
    for name in THINGS:
        assert (await caller.get(name, ids[name])).status == 200
        assert (await caller.put(name, cancelled[name])).status == 409
    assert (await caller.put("drone", ids["drone"])).body.decode() == drone


@pytest.mark.parametrize("dial", [{"hang": True}, {"latency_ms": {"median": 60_000, "p99": 60_000}}])
async def test_requests_that_are_held_do_not_delay_a_stop(
    caller: Caller, services: Services, dial: dict[str, Any]
):
    await services.turn("account", **dial)
    held = asyncio.create_task(caller.ask("account", "GET", "/api/account/a"))
    done, _ = await asyncio.wait({held}, timeout=0.3)

    began = time.monotonic()
    code = await services.stop("account")
    took = time.monotonic() - began
    await services.start("account")
    await services.turn("account")

    assert not done
    assert code == 0
    assert took < STOP_SECONDS_MAX
    assert (await held).status == (503 if "hang" in dial else 200)
    assert "Traceback" not in services.log("account")


async def test_a_body_that_never_ends_does_not_delay_a_stop(services: Services):
    _, writer = await asyncio.open_connection(HOST, services.ports["account"])
    writer.write(b"PUT /api/account/a HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
    await writer.drain()

    began = time.monotonic()
    code = await services.stop("account")
    took = time.monotonic() - began
    writer.close()
    await services.start("account")

    assert code == 0
    assert took < STOP_SECONDS_MAX
    assert "Traceback" not in services.log("account")


async def test_a_service_says_in_one_line_that_it_listens(services: Services):
    lines = services.log("third-party").splitlines()

    assert set(lines) == {f"third-party service: listens on {services.url('third-party')}"}


async def test_a_service_that_cannot_start_says_why_in_one_line(services: Services, tmp_path: Path):
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is no database, and never was one. " * 100)
    taken = services.ports["account"]
    free, also_free = free_ports(2)

    port_taken, no_database, no_folder = await asyncio.gather(
        run(*command("account", port=taken, database=tmp_path / "a.db")),
        run(*command("account", port=free, database=broken)),
        run(*command("account", port=also_free, database=tmp_path / "nowhere" / "a.db")),
    )

    for ended, said in (
        (port_taken, f"cannot listen on {HOST}:{taken}: Address already in use; give another --port"),
        (no_database, "file is not a database; give another --database"),
        (no_folder, "unable to open database file; give another --database"),
    ):
        assert (ended.returncode, ended.stdout) == (1, "")
        [line] = ended.stderr.splitlines()
        assert said in line
    assert not (tmp_path / "a.db").exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("account", "bank"), "invalid choice: 'bank'"),
        (("20001", "0"), "'0' is no port"),
        (("20001", "http"), "'http' is no port"),
        (("--database", "--file"), "--database"),
    ],
)
async def test_a_bad_option_is_named(tmp_path: Path, changed: tuple[str, str], said: str):
    words = command("account", port=20_001, database=tmp_path / "a.db")

    ended = await run(*(changed[1] if word == changed[0] else word for word in words))

    assert ended.returncode == 2
    assert said in ended.stderr


async def run(*words: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run,
        words,
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
