"""Requests come in through a stream: what was accepted is made, whatever dies, and nonsense stops nothing."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from backstay.domain.stream import NewEvent, partition_of
from drone_delivery.standing import LOOK_MAX
from drone_delivery.wishes import PARTITIONS
from tests.support.drone_platform import (
    API,
    EVERYTHING,
    SHORT_LEASE,
    DronePlatform,
    Order,
    drone_platform,
    eventually,
    new_request,
)
from tests.support.drone_stream import OPERATIONS, SCHEDULER
from tests.support.serving import Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = "00000000-0000-4000-8000-000000000000"
MANY = 200
LAST_BEFORE_THE_KILL = 50


# What was accepted is made


async def test_what_was_accepted_is_made_although_the_front_was_killed_right_after_its_last_answer(
    tmp_path: Path,
):
    """DX-01: 202 is answered after the commit, with nobody there to take anything up."""
    async with drone_platform(tmp_path) as platform:
        front = await platform.serve(API)
        accepted: list[Order] = []
        asked = [asyncio.create_task(ask_for_one(platform, accepted)) for _ in range(MANY)]
        await eventually(
            lambda: count(accepted), lambda number: number >= LAST_BEFORE_THE_KILL, what="some answers"
        )

        front.kill()

        await asyncio.gather(*asked)
        await platform.serve(EVERYTHING)
        states = await platform.until_all_have_ended()
        assert {states.get(order.id) for order in accepted} == {"processed"}
        assert len(accepted) >= LAST_BEFORE_THE_KILL
        # Of the others nobody was told anything: made once, or not at all.
        books = platform.books()
        assert {one.id for one in books.deliveries} == {one.delivery_id for one in books.assignments}
        assert {one.times_created for one in books.deliveries} == {1}


async def test_a_request_that_nobody_has_taken_up_yet_is_promised_and_an_id_of_nobody_is_not_found(
    tmp_path: Path,
):
    """AR-3."""
    async with drone_platform(tmp_path) as platform:
        await platform.serve(API)
        orders = await platform.place_all([new_request() for _ in range(20)])

        promised = [await platform.ask("GET", order.location) for order in orders]
        unknown = await platform.get(f"/api/deliveries/{UNKNOWN}")

        assert {(answer.status, answer.headers["Retry-After"]) for answer in promised} == {(202, "1")}
        assert [answer.json for answer in promised] == [
            {"id": order.id, "state": "pending"} for order in orders
        ]
        assert (unknown.status, unknown.detail) == (404, "there is no such delivery")
        assert await platform.tasks() == []


async def test_behind_more_than_anybody_looks_through_a_delivery_is_promised_and_not_changed_yet(
    tmp_path: Path,
):
    """AR-3: nobody knows whether it was asked for, and nobody says that it was not."""
    async with drone_platform(tmp_path, names=()) as platform:
        await platform.serve(API)
        await platform.stream.append_many(LOOK_MAX, key=neighbour_of(UNKNOWN))

        asked = await platform.get(f"/api/deliveries/{UNKNOWN}")
        changed = await platform.ask("DELETE", f"{platform.url}/api/deliveryrequests/{UNKNOWN}")

        assert [(answer.status, answer.headers["Retry-After"]) for answer in (asked, changed)] == [
            (202, "1"),
            (503, "1"),
        ]


async def test_a_key_is_known_before_its_request_is_taken_up_and_after_it_was(tmp_path: Path):
    """DX-02: one event, however often it is asked for; another request under the key is refused."""
    async with drone_platform(tmp_path) as platform:
        await platform.serve(API)
        request, key = new_request(), f"key/{uuid.uuid4()}"
        first, again = [await platform.post(request, Idempotency_Key=key) for _ in range(2)]
        other = await platform.post({**request, "deadline": "another"}, Idempotency_Key=key)
        order = order_of(first)
        events = await platform.stream.events()

        for process in platform.processes:
            process.kill()
        # The stream itself has forgotten the id by then: it is the task that is compared.
        await platform.serve(EVERYTHING, stream_dedup_window="1ms")
        await platform.until(order, "processed")
        late = await platform.post(request, Idempotency_Key=key)
        late_other = await platform.post({**request, "deadline": "another"}, Idempotency_Key=key)

        assert [answer.status for answer in (first, again, late)] == [202, 202, 202]
        assert first.body == again.body == late.body
        assert [answer.status for answer in (other, late_other)] == [422, 422]
        assert events == await platform.stream.events() == 1


# Whatever dies


async def test_a_failure_that_was_recorded_is_supervised_although_its_process_died_at_once(tmp_path: Path):
    """DX-04: the failure is a row in the store; there is no second place that it would be handed to."""
    async with drone_platform(tmp_path) as platform:
        first = await platform.serve(EVERYTHING, **SHORT_LEASE)
        async with platform.disturbed("drone", outage=True):
            order = await platform.place(new_request())
            await platform.until_step(order, "schedule_drone", holds=lambda step: step["failure_count"] >= 1)

            first.kill()

        await platform.serve(EVERYTHING, **SHORT_LEASE)
        await platform.until(order, "processed")


async def test_what_failed_for_good_is_undone_although_its_process_died_at_once(tmp_path: Path):
    """DX-04."""
    async with drone_platform(tmp_path) as platform:
        first = await platform.serve(EVERYTHING, **SHORT_LEASE)
        request = new_request()
        await platform.suspend(request["ownerId"])
        async with platform.disturbed("package", latency_ms={"median": 3_000, "p99": 3_000}):
            order = await platform.place(request)
            await platform.until_step(order, "check_account", holds=lambda step: step["state"] == "failed")

            first.kill()  # The package is on its way, and nothing is undone yet.

        await platform.serve(EVERYTHING, **SHORT_LEASE)
        await platform.until(order, "undone")
        assert platform.held_for(order) == set()


async def test_a_reader_that_is_killed_leaves_its_partitions_to_another_and_nothing_is_started_twice(
    tmp_path: Path,
):
    """DX-01: the task and how far the group has got are one transaction."""
    async with drone_platform(tmp_path) as platform:
        await platform.serve(API, **SHORT_LEASE)
        readers = [await platform.serve(EVERYTHING, **SHORT_LEASE) for _ in range(2)]
        first = await platform.place_all([new_request() for _ in range(MANY)])

        readers[0].kill()
        then = await platform.place_all([new_request() for _ in range(MANY)])

        states = await platform.until_all_have_ended()
        assert states == {order.id: "processed" for order in [*first, *then]}
        assert {one.times for one in platform.books().assignments} == {1}


# Nonsense


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (lambda _: {"operation": "explode"}, "explode"),
        (lambda _: "a text", "object"),
        (lambda _: {"operation": "deliver", "request": {}}, "required"),
        (lambda key: {"operation": "cancel", "deliveryId": f"not-{key}"}, "key"),
    ],
    ids=["unknown operation", "no object", "no request", "another's key"],
)
async def test_an_event_that_nobody_understands_is_set_aside_and_its_partition_moves_on(
    platform: DronePlatform, body: Callable[[str], Any], said: str
):
    """DX-05."""
    key = str(uuid.uuid4())
    partition = await platform.stream.append(body(key), key=key)

    after = await order_in(platform, partition)

    await platform.until(after, "processed")
    await platform.until_taken_up(SCHEDULER, OPERATIONS)
    for group in (SCHEDULER, OPERATIONS):
        [aside] = [one for one in await platform.stream.quarantine(group) if one["body"] == body(key)]
        assert aside["partition"] == partition
        assert said in aside["reason"]
    assert (await platform.get(f"/api/deliveries/{key}")).status == 404


async def order_in(platform: DronePlatform, partition: int) -> Order:
    """One whose request went to this partition."""
    while True:
        order = await platform.place(new_request())
        if partition_for(order.id) == partition:
            return order


def neighbour_of(key: str) -> str:
    """Another key of the same partition."""
    keys = (f"neighbour-{number}" for number in itertools.count())
    return next(one for one in keys if partition_for(one) == partition_for(key))


def partition_for(key: str) -> int:
    return partition_of(NewEvent(body=b"", key=key), PARTITIONS, turn=0)


async def ask_for_one(platform: DronePlatform, accepted: list[Order]) -> None:
    """Ask for a delivery; the front may be killed meanwhile."""
    request = new_request()
    try:
        answer = await platform.ask("POST", f"{platform.processes[0].url}/api/deliveryrequests", request)
    except aiohttp.ClientError:
        return
    if answer.status == 202:
        accepted.append(order_of(answer))


async def count(accepted: list[Order]) -> int:
    return len(accepted)


def order_of(accepted: Answer) -> Order:
    return Order(accepted.json["deliveryId"], accepted.json, accepted.headers["Location"])
