"""Deliveries meet lost answers, services that hang or are away, and kill -9; all are made, and made once."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from drone_delivery.services.books import Assignment
from tests.support.drone_platform import (
    SHORT_LEASE,
    DronePlatform,
    Order,
    connections,
    drone_platform,
    eventually,
    new_request,
)
from tests.support.platform import Process

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY = 200
COUNT_EVERY_SECONDS = 0.05
CONNECTIONS_MAX = 50
COMPLETE_BY_SECONDS = 5.0
#: By how much a busy machine may be late.
LATE_SECONDS_MAX = 5.0
#: Half of it passes before the work and half after it.
SLOW = {"median": 3_000, "p99": 3_000}
#: Who is called by which step.
STEPS = {
    "account": "check_account",
    "third-party": "check_transport",
    "package": "create_package",
    "drone": "schedule_drone",
    "delivery": "create_delivery",
}


async def test_a_drone_whose_answer_is_lost_is_asked_for_again_and_is_the_same_one(platform: DronePlatform):
    """DX-08."""
    async with platform.disturbed("drone", error_rate=1.0):
        order = await platform.place(new_request())
        assigned = await until_assigned(platform, order)

    await platform.until(order, "processed")

    assert assignments_of(platform, order) == [assigned]
    assert assigned.times == 1
    assert (await platform.get(f"/api/deliveries/{order.id}")).json["droneId"] == assigned.drone_id
    [call] = platform.calls("drone", order.id)
    assert call.times >= 2


async def test_a_step_that_is_replayed_after_kill_minus_nine_finds_what_it_had_made(tmp_path: Path):
    """DX-08: the same drone. DX-09: a delivery that is there already is no failure."""
    async with drone_platform(tmp_path) as platform:
        first = await platform.serve(**SHORT_LEASE)
        async with platform.disturbed("drone", latency_ms=SLOW):
            order = await platform.place(new_request())
            assigned = await until_assigned(platform, order)

            first.kill()  # The drone is assigned, and the answer on its way.

        second = await platform.serve(**SHORT_LEASE)
        await platform.until(order, "processed")
        assert assignments_of(platform, order) == [assigned]
        assert assigned.times == 1
        assert (await platform.get(f"/api/deliveries/{order.id}")).json["droneId"] == assigned.drone_id
        [call] = platform.calls("drone", order.id)
        assert (call.key, call.times) == (f"{order.id}/schedule_drone:1", 2)

        async with platform.disturbed("delivery", latency_ms=SLOW):
            order = await platform.place(new_request())
            await until_made(platform, order)

            second.kill()  # It is made: 201 is on its way to nobody, and whoever asks again gets 204.

        await platform.serve(**SHORT_LEASE)
        await platform.until(order, "processed")
        [made] = [one for one in platform.books().deliveries if one.id == order.id]
        assert made.times_created == 1
        [call] = platform.calls("delivery", order.id)
        assert (call.key, call.times) == (f"{order.id}/create_delivery:1", 2)


async def test_the_third_party_is_asked_under_the_same_id_and_key_at_every_attempt(platform: DronePlatform):
    """DX-15."""

    async def times_asked() -> int:
        return sum(call.times for call in platform.calls("third-party", order.id))

    async with platform.disturbed("third-party", error_rate=1.0):
        order = await platform.place(new_request())
        await eventually(times_asked, lambda times: times >= 2, what="a second call")

    await platform.until(order, "processed")

    [call] = platform.calls("third-party", order.id)
    assert (call.key, call.id) == (f"{order.id}/check_transport:1", order.id)
    assert call.times >= 3
    [check] = [one for one in platform.books().checks if one.id == order.id]
    assert check.live


@pytest.mark.skipif(sys.platform != "linux", reason="connections are counted in /proc, which is Linux's")
async def test_a_service_that_hangs_is_cut_off_at_the_complete_by_and_holds_up_nothing_else(tmp_path: Path):
    """DX-16."""
    async with drone_platform(tmp_path) as platform:
        process = await platform.serve()
        async with (
            platform.disturbed("drone", hang=True),
            counting_connections(process, port=platform.services.ports["drone"]) as counted,
            asyncio.TaskGroup() as meanwhile,
        ):
            first = await platform.place(new_request())
            # From the stream they are taken up in any order, and only so many wait for the service at once.
            await platform.until_step(first, "schedule_drone", holds=lambda step: step["state"] == "running")
            cut_off = meanwhile.create_task(seconds_until_cut_off(platform, first))
            others = await platform.place_all([new_request() for _ in range(MANY)])

            # All that does not need the service that hangs is done.
            await eventually(
                lambda: packages_and_checks(platform),
                lambda numbers: numbers == (MANY + 1, MANY + 1),
                what="a package and a check for each delivery",
            )

        assert cut_off.result() <= COMPLETE_BY_SECONDS + LATE_SECONDS_MAX
        assert CONNECTIONS_MAX / 2 < max(counted) <= CONNECTIONS_MAX
        states = await platform.until_all_have_ended()
        assert states == {order.id: "processed" for order in [first, *others]}
        assert (await platform.steps(first))["schedule_drone"]["attempt"] >= 2
        await assert_each_made_once(platform)


async def test_deliveries_wait_while_a_service_is_away_and_none_fails(tmp_path: Path):
    async with drone_platform(tmp_path) as platform:
        await platform.serve()
        async with platform.disturbed("drone", outage=True):
            orders = await platform.place_all([new_request() for _ in range(60)])

            await eventually(lambda: platform.breaker("drone"), lambda state: state == "open", what="open")

            waiting = {task["id"] for task in await platform.tasks("pending", "processing", "waiting")}
            assert waiting == {order.id for order in orders}

        states = await platform.until_all_have_ended()
        assert states == {order.id: "processed" for order in orders}
        await eventually(lambda: platform.breaker("drone"), lambda state: state == "closed", what="closed")
        await assert_each_made_once(platform)


async def test_what_a_killed_process_leaves_in_the_middle_of_a_hundred_another_one_completes(tmp_path: Path):
    """DX-08, DX-15: at whichever step a process dies."""
    async with drone_platform(tmp_path) as platform:
        for _ in range(2):
            await platform.serve(**SHORT_LEASE)
        await platform.type("workflows", "pause", "deliver")  # so that they begin together
        orders = await platform.place_all([new_request() for _ in range(100)])
        async with platform.disturbed("drone", latency_ms=SLOW):
            await platform.type("workflows", "resume", "deliver")
            victim = await eventually(
                lambda: waits_for_an_answer(platform), bool, what="a drone whose answer is on its way"
            )
            assert victim is not None

            victim.kill()

        states = await platform.until_all_have_ended()
        assert states == {order.id: "processed" for order in orders}
        await assert_each_made_once(platform)
        assert platform.books().repeated >= 1, "nothing was under way when it was killed"


async def until_assigned(platform: DronePlatform, order: Order) -> Assignment:
    """The drone that a delivery was given, whether or not anybody was told."""

    async def look() -> list[Assignment]:
        return assignments_of(platform, order)

    [assignment] = await eventually(look, bool, what=f"a drone for {order.id}")
    return assignment


async def until_made(platform: DronePlatform, order: Order) -> None:
    async def look() -> bool:
        return any(one.id == order.id for one in platform.books().deliveries)

    await eventually(look, bool, what=f"delivery {order.id} on record")


def assignments_of(platform: DronePlatform, order: Order) -> list[Assignment]:
    return [one for one in platform.books().assignments if one.delivery_id == order.id]


@asynccontextmanager
async def counting_connections(process: Process, *, port: int) -> AsyncIterator[list[int]]:
    """How many connections to ``port`` the process had, again and again while the context is open."""
    counted: list[int] = []

    async def count() -> None:
        while True:
            counted.append(connections(process, port=port))
            await asyncio.sleep(COUNT_EVERY_SECONDS)

    counting = asyncio.create_task(count())
    try:
        yield counted
    finally:
        counting.cancel()
        with suppress(asyncio.CancelledError):
            await counting


async def seconds_until_cut_off(platform: DronePlatform, order: Order) -> float:
    """How long the drone step waits for the service until that counts as a failure."""
    await platform.until_step(order, "schedule_drone", holds=lambda step: step["state"] == "running")
    began = time.monotonic()
    await platform.until_step(order, "schedule_drone", holds=lambda step: step["failure_count"] >= 1)
    return time.monotonic() - began


async def packages_and_checks(platform: DronePlatform) -> tuple[int, int]:
    books = platform.books()
    return len(books.packages), len(books.checks)


async def waits_for_an_answer(platform: DronePlatform) -> Process | None:
    """A process that holds a delivery which has its drone, and is not there yet."""
    held_by = {task["id"]: task["locked_by"] for task in await platform.tasks("processing")}
    books = platform.books()
    under_way = {one.delivery_id for one in books.assignments} - {one.id for one in books.deliveries}
    holders = {held_by[delivery_id] for delivery_id in under_way & held_by.keys()}
    return next((one for one in platform.processes if any(f"-{one.pid}-" in name for name in holders)), None)


async def assert_each_made_once(platform: DronePlatform) -> None:
    """The services' books have what belongs to the deliveries that were processed, once, and nothing else."""
    processed = {task["id"] for task in await platform.tasks("processed")}
    books = platform.books()
    drones = {one.delivery_id: one.drone_id for one in books.assignments}
    packages = {one.package_id for one in books.assignments}
    assert len(set(drones.values())) == len(packages) == len(processed)
    assert {(one.delivery_id, one.live, one.times) for one in books.assignments} == {
        (delivery_id, True, 1) for delivery_id in processed
    }
    assert {(one.id, one.drone_id, one.live, one.times_created) for one in books.deliveries} == {
        (delivery_id, drones[delivery_id], True, 1) for delivery_id in processed
    }
    assert {(one.id, one.live) for one in books.packages} == {(package_id, True) for package_id in packages}
    assert {(one.id, one.live) for one in books.checks} == {(delivery_id, True) for delivery_id in processed}
    for service, step in STEPS.items():
        assert {call.key for call in platform.calls(service)} == {
            f"{delivery_id}/{step}:1" for delivery_id in processed
        }
