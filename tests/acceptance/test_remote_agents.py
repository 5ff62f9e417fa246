"""Agents in processes of their own: schedulers and agent hosts that are killed, frozen and held back.

Real processes on a real store. The services keep a book of their own, so that nobody has to believe the
store. Proves SAS-02, SAS-22, SAS-23 and SAS-30 across processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.databases import Database
from tests.support.delivery_app import Services
from tests.support.platform import SHORT_LEASE, Platform, Process, eventually

DELIVERED = ["reserve by attempt 1", "charge by attempt 1", "ship by attempt 1"]
DESK = "api,supervisor"


@pytest.fixture
def platform(database: Database, tmp_path: Path) -> Iterator[Platform]:
    with Platform(database, tmp_path) as platform:
        yield platform


@pytest.fixture
def services(platform: Platform) -> Services:
    return platform.services


def worker_of(platform: Platform, operation: str, *, attempt: int = 1) -> Process:
    """The process in which a service was asked."""
    platform.until_asked(operation, attempt=attempt)
    [pid] = {entry.pid for entry in platform.services.asked(operation) if entry.attempt == attempt}
    return next(process for process in platform.processes if process.pid == pid)


def attempts(services: Services, operation: str) -> list[int]:
    return [entry.attempt for entry in services.asked(operation)]


def test_every_role_may_be_in_a_process_of_its_own(platform: Platform, services: Services):
    _, _, host, _ = platform.serve("api", "scheduler", "agents", "supervisor", heartbeat="250ms")

    platform.submit("deliver", "o1")
    platform.until("o1", "processed")

    assert platform.task("o1")["output"] == DELIVERED
    assert {entry.pid for entry in services.effects()} == {host.pid}
    [bank] = [one for one in platform.get("/v1/agents")["items"] if one["name"] == "bank"]
    assert [platform.process_of(one["id"]) for one in bank["instances"]] == [host]
    assert "bank" in platform.type("agents", "ls")


def test_a_scheduler_without_agents_is_served_by_one_that_has_some(platform: Platform, services: Services):
    _, alone = platform.serve(DESK, "scheduler", heartbeat="250ms")
    platform.submit("deliver", "o1")
    platform.until("o1", "waiting")
    alone.kill()
    [both] = platform.serve("scheduler,agents", heartbeat="250ms")

    platform.until("o1", "processed")

    assert {entry.pid for entry in services.effects()} == {both.pid}


def test_an_agent_host_killed_in_the_middle_of_a_step_costs_a_repeat_and_nobody_a_failure(
    platform: Platform, services: Services
):
    platform.serve(DESK, "scheduler", "agents", "agents", **platform.soon_found_dead)
    services.hang("reserve", attempt=1)
    platform.submit("deliver", "o1")

    worker_of(platform, "reserve").kill()
    platform.until("o1", "processed")

    reserve = platform.steps("o1")["reserve:1"]
    assert (reserve["attempt"], reserve["failure_count"]) == (2, 0)
    assert attempts(services, "reserve") == [1, 2]
    [effect] = services.effects("reserve")
    assert effect.attempt == 2, "the first died before it took effect"


def test_a_scheduler_killed_while_a_step_is_at_work_elsewhere_costs_nothing_at_all(
    platform: Platform, services: Services
):
    """The next one waits for the reply: the service is asked once."""
    platform.serve(DESK, "scheduler", "scheduler", "agents", **platform.soon_found_dead)
    services.hang("reserve")
    platform.submit("deliver", "o1")
    platform.until_asked("reserve")

    first = platform.holder_of("o1")
    first.kill()
    eventually(
        lambda: platform.task("o1")["locked_by"],
        lambda holder: holder is not None and platform.process_of(holder) is not first,
        what="another holder",
    )
    services.repair("reserve")
    platform.until("o1", "processed")

    assert platform.task("o1")["output"] == DELIVERED
    assert attempts(services, "reserve") == [1]
    assert platform.steps("o1")["reserve:1"]["attempt"] == 1


def test_a_reply_given_while_no_scheduler_lives_is_taken_by_the_next(platform: Platform, services: Services):
    _, scheduler, _ = platform.serve(DESK, "scheduler", "agents", **platform.soon_found_dead)
    services.hang("reserve")
    platform.submit("deliver", "o1")
    platform.until_asked("reserve")
    scheduler.kill()
    platform.until("o1", "pending")

    services.repair("reserve")
    eventually(lambda: services.effects("reserve"), bool, what="the effect")
    platform.serve("scheduler", **platform.soon_found_dead)
    platform.until("o1", "processed")

    assert attempts(services, "reserve") == [1]
    assert platform.task("o1")["output"] == DELIVERED


def test_a_host_that_was_frozen_for_too_long_replies_too_late_and_changes_nothing(
    platform: Platform, services: Services
):
    """SAS-22."""
    _, _, first = platform.serve(DESK, "scheduler", "agents", **SHORT_LEASE)
    services.hang("reserve", attempt=1)
    platform.submit("deliver", "o1")
    platform.until_asked("reserve")

    platform.freeze(first)
    platform.serve("agents", **SHORT_LEASE)
    platform.until("o1", "processed")
    services.repair("reserve")
    first.thaw()
    # It hears that it was declared dead, and lives again under another name.
    first.until_said("instance_dead", "late_reply")

    assert platform.task("o1")["output"] == ["reserve by attempt 2", *DELIVERED[1:]]
    assert platform.steps("o1")["reserve:1"]["attempt"] == 2


def test_cancelling_stops_the_step_where_it_runs(platform: Platform, services: Services):
    platform.serve(DESK, "scheduler", "agents", heartbeat="250ms")
    services.hang("reserve")
    platform.submit("deliver", "o1")
    platform.until_asked("reserve")

    platform.post("/v1/tasks/o1/cancel", {"undo": True})
    platform.until("o1", "undone")

    services.repair("reserve")
    assert services.effects("reserve") == []
    # Nobody knows whether it took effect before it was told to stop.
    assert [entry.outcome for entry in services.effects("release")] == ["unknown"]


def test_what_is_paused_is_begun_by_no_host_and_goes_on_when_it_is_resumed(
    platform: Platform, services: Services
):
    platform.serve(DESK, "scheduler", "agents", heartbeat="250ms")
    platform.type("agents", "pause", "bank", "--reason", "stocktaking")

    platform.submit("deliver", "o1")
    why = eventually(
        lambda: platform.get("/v1/tasks/o1/why"),
        lambda why: "paused" in why["reason"],
        what="a pause",
    )

    assert "agent 'bank' is paused" in why["reason"]
    assert why["command"] == "backstay agents resume bank"
    assert services.asked("charge") == []
    platform.type("agents", "resume", "bank")
    platform.until("o1", "processed")


def test_under_load_and_kills_nothing_is_lost_or_stuck_and_no_effect_is_missing(
    platform: Platform, services: Services
):
    """Two schedulers, two agent hosts, two supervisors; each of the first four is killed once or more."""
    settings = {**platform.soon_found_dead, "requests_open": "50"}
    roles = ["scheduler", "scheduler", "agents", "agents"]
    _, _, *workers = platform.serve(DESK, "supervisor", *roles, **settings)
    orders: list[str] = []

    for number in (2, 0, 3, 1, Random(7).randrange(4)):
        before = len(services.asked("reserve"))
        orders += [platform.submit("deliver_or_undo", f"o{len(orders)}-{one}")["id"] for one in range(12)]
        eventually(lambda: len(services.asked("reserve")), before.__lt__, what="more")
        workers[number].kill()
        [workers[number]] = platform.serve(roles[number], **settings)
    for order in orders:
        platform.until(order, "processed", "undone", "error", "undo_failed", "cancelled")

    states = Counter(platform.task(order)["state"] for order in orders)
    assert states == {"processed": len(orders)}
    done = Counter(entry.key for entry in services.effects())
    expected = {f"{order}/{step}:1" for order in orders for step in ("reserve", "charge", "ship")}
    assert set(done) == expected
    # What was repeated was under way when its host was killed: its attempts say so.
    for order in orders:
        for key, step in platform.steps(order).items():
            assert done[f"{order}/{key}"] <= step["attempt"]
            assert step["failure_count"] == 0
