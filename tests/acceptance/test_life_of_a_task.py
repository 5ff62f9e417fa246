"""The life of a task along every path of the pattern: scheduler, agents, supervisor, and an operator.

Real processes on a real store, driven over HTTP and by the command line, killed and frozen as a machine
would do it. The services keep a book of their own, so that nobody has to believe the store.

Proves SAS-01 to SAS-10, SAS-12, SAS-13, SAS-22, SAS-25, VA-06, VA-07, VA-08, LE-1 to LE-6, CT-1, CT-3 and
CT-9.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from backstay.clock import SystemClock
from tests.chaos.matrix import Healing, Part, Watch, failure
from tests.support.databases import Database
from tests.support.delivery_app import TRIES, Services
from tests.support.platform import EVERYTHING, SHORT_LEASE, WORKER, Platform, eventually

DELIVERED = ["reserve by attempt 1", "charge by attempt 1", "ship by attempt 1"]
SECOND = timedelta(seconds=1)


@pytest.fixture
def platform(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> Iterator[Platform]:
    is_a_row = request.node.get_closest_marker("failure") is not None
    watch: Watch | None = request.getfixturevalue("watch") if is_a_row else None
    with Platform(database, tmp_path) as platform:
        yield platform
    if watch is not None:
        watch.facts.of_services(platform.services)


@pytest.fixture
def services(platform: Platform) -> Services:
    return platform.services


def effects(services: Services, *operations: str, task_id: str | None = None) -> list[str]:
    return [effect.operation for effect in services.effects(*operations, task_id=task_id)]


# Everything goes well


def test_a_task_is_locked_while_it_is_processed_and_neither_before_nor_after(
    platform: Platform, services: Services
):
    """SAS-01, SAS-02, with each role in a process of its own."""
    _, worker, _ = platform.serve("api", "scheduler,agents", "supervisor")
    services.hang("charge")

    submitted = platform.submit("deliver", "o1")
    platform.until_asked("charge")
    processing, charge = platform.task("o1"), platform.steps("o1")["charge:1"]
    services.repair("charge")
    processed = platform.until("o1", "processed")

    locks = [(task["state"], task["locked_by"], task["complete_by"]) for task in (submitted, processed)]
    assert locks == [("pending", None, None), ("processed", None, None)]
    assert processing["state"] == "processing"
    assert platform.process_of(processing["locked_by"]) is worker
    assert datetime.fromisoformat(processing["complete_by"]) > SystemClock().now()
    [asked] = services.asked("charge")
    assert (charge["state"], datetime.fromisoformat(charge["complete_by"])) == ("running", asked.complete_by)
    assert (asked.key, asked.attempt) == ("o1/charge:1", 1)
    assert processed["output"] == DELIVERED
    assert effects(services) == ["reserve", "charge", "ship"]


def test_of_many_schedulers_that_race_for_a_task_one_gets_it(platform: Platform, services: Services):
    """SAS-01, SAS-09."""
    platform.serve(EVERYTHING, EVERYTHING)
    orders = [f"o{number}" for number in range(20)]

    for order in orders:
        platform.submit("deliver", order)
    for order in orders:
        platform.until(order, "processed")

    for step in ("reserve", "charge", "ship"):
        asked = [one.key for one in services.asked(step)]
        assert sorted(asked) == sorted(f"{order}/{step}:1" for order in orders)
    assert len(services.effects()) == 3 * len(orders)


def test_a_process_that_is_told_to_stop_lets_a_step_end_and_leaves_the_rest_to_the_next(
    platform: Platform, services: Services
):
    """SAS-08, LE-4."""
    [first] = platform.serve(EVERYTHING)
    services.hang("charge")
    platform.submit("deliver", "at-work")
    platform.until_asked("charge")

    first.terminate()
    eventually(lambda: platform.status(first, "/readyz"), lambda status: status == 503, what="draining")
    platform.submit("deliver", "queued")
    services.repair("charge")
    assert first.exit_code() == 0
    [second] = platform.serve(EVERYTHING)
    outputs = [platform.until(order, "processed")["output"] for order in ("at-work", "queued")]

    assert outputs == [DELIVERED, DELIVERED]
    assert {effect.key: effect.pid for effect in services.effects()} == {
        "at-work/reserve:1": first.pid,
        "at-work/charge:1": first.pid,
        "at-work/ship:1": second.pid,
        "queued/reserve:1": second.pid,
        "queued/charge:1": second.pid,
        "queued/ship:1": second.pid,
    }
    assert len(services.effects()) == 6
    assert not first.said("drain_cut_short")


# A service has trouble, and the agent or the scheduler sees to it


def test_an_agent_tries_a_passing_fault_again_within_one_attempt(platform: Platform, services: Services):
    platform.serve(EVERYTHING)
    services.fail("charge", times=TRIES - 1)

    platform.submit("deliver", "o1")
    processed = platform.until("o1", "processed")

    assert processed["output"] == DELIVERED
    asked = services.asked("charge")
    assert len(asked) == TRIES
    assert {(one.key, one.attempt, one.complete_by) for one in asked} == {
        ("o1/charge:1", 1, asked[0].complete_by)
    }
    charge = platform.steps("o1")["charge:1"]
    assert (charge["attempt"], charge["failure_count"]) == (1, 0)
    assert effects(services) == ["reserve", "charge", "ship"]


@failure(
    "a reply comes late",
    of=Part.AGENTS,
    seen=(
        "the step is at its next attempt; `late_reply` is logged and counted when the first one "
        "says something"
    ),
    heals=(
        "past its complete-by an attempt has lost its right to be heard: the reply is refused by its attempt"
    ),
    takes="the step's complete-by",
    within="20s",
    invariants=(1, 2, 3, 4, 5, 6, 14),
)
def test_when_a_reply_comes_late_the_step_was_repeated_and_nothing_changes(
    platform: Platform, services: Services, healing: Healing
):
    """SAS-03, SAS-10, CT-1."""
    [process] = platform.serve(EVERYTHING, agent_complete_by="1s")
    services.hang("charge", attempt=1)
    services.hang("ship")

    platform.submit("deliver", "o1")
    platform.until_asked("charge")
    with healing():
        platform.until_asked("ship")
    before = platform.task("o1"), platform.steps("o1")
    assert not process.said("late_reply"), "the first attempt fell silent"
    services.repair("charge")
    process.until_said("late_reply")
    after = platform.task("o1"), platform.steps("o1")
    services.repair("ship")
    processed = platform.until("o1", "processed")

    assert after == before
    first, second = services.asked("charge")
    assert (first.key, second.key) == ("o1/charge:1", "o1/charge:1")
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.complete_by >= first.complete_by + SECOND
    assert second.at >= first.complete_by, "no second attempt before the first has lost its right to act"
    charge = platform.steps("o1")["charge:1"]
    assert (charge["state"], charge["attempt"], charge["failure_count"]) == ("completed", 2, 1)
    assert processed["output"][1] == "charge by attempt 2"
    # The late effect is there, and the service knows it by its key for the one that it has already.
    assert [(one.key, one.attempt) for one in services.effects("charge")] == [
        ("o1/charge:1", 2),
        ("o1/charge:1", 1),
    ]


def test_a_task_rests_when_its_attempts_are_used_up_and_is_then_tried_again(
    platform: Platform, services: Services
):
    """SAS-05, VA-08."""
    platform.serve(EVERYTHING)
    services.fail("charge")

    platform.submit("deliver_patiently", "o1")
    resting = platform.until("o1", "waiting")
    services.repair("charge")
    processed = platform.until("o1", "processed")

    assert (resting["locked_by"], resting["complete_by"]) == (None, None)
    assert resting["error"]["step"] == "charge:1"
    attempts = services.asked("charge")[::TRIES]
    assert len(attempts) > 1
    assert all(later.at - earlier.at >= SECOND for earlier, later in pairwise(attempts))
    assert processed["output"][1] == f"charge by attempt {len(attempts)}"
    assert effects(services) == ["reserve", "charge", "ship"]
    assert platform.alerts() == []


# It fails for good


def test_at_the_limit_a_task_stops_with_an_alert_until_an_operator_has_its_step_repeated(
    platform: Platform, services: Services
):
    """SAS-05, SAS-07, VA-08."""
    [process] = platform.serve(EVERYTHING)
    platform.log_in("ada", "operate")
    services.fail("charge")

    platform.submit("deliver", "o1")
    stopped = platform.until("o1", "error")
    [alert] = platform.alerts(open_only=True)
    [line] = process.until_said("alert=task_error task_id=o1")
    services.repair("charge")
    platform.type("tasks", "resubmit", "o1", "--reason", "the bank is open again")
    processed = platform.until("o1", "processed")
    platform.type("alerts", "ack", str(alert["id"]))

    assert [one.attempt for one in services.asked("charge")] == [1, 1, 2, 2, 3]
    assert (stopped["locked_by"], stopped["complete_by"]) == (None, None)
    assert stopped["error"]["step"] == "charge:1"
    assert (alert["kind"], alert["task_id"], alert["step"]) == ("task_error", "o1", "charge:1")
    assert "charge is out of order" in alert["message"]
    assert "charge is out of order" in line
    assert processed["output"] == [DELIVERED[0], "charge by attempt 3", DELIVERED[2]]
    assert effects(services) == ["reserve", "charge", "ship"]
    [entry] = platform.audit("o1")
    assert (entry["who"], entry["reason"]) == ("token:ada", "the bank is open again")
    assert (entry["before"]["state"], entry["after"]["state"]) == ("error", "pending")
    assert platform.alerts(open_only=True) == []
    [acknowledged] = platform.alerts()
    assert (acknowledged["id"], acknowledged["acknowledged_by"]) == (alert["id"], "token:ada")


def test_a_stopped_task_is_undone_newest_first_when_the_operator_has_seen_the_plan_and_asks_for_it(
    platform: Platform, services: Services
):
    """SAS-25, CT-3."""
    platform.serve(EVERYTHING)
    services.fail("ship")
    platform.submit("deliver", "o1")
    stopped = platform.until("o1", "error")

    plan = json.loads(platform.type("tasks", "undo", "o1", "--preview", "--json"))
    previewed = platform.task("o1")
    platform.type("tasks", "undo", "o1", "--yes", "--reason", "the customer has moved")
    platform.until("o1", "undone")

    assert previewed == stopped, "looking changes nothing"
    planned = [(step["key"], step["outcome"]) for step in plan["steps"]]
    assert planned == [("ship:1", "unknown"), ("charge:1", "completed"), ("reserve:1", "completed")]
    undone = [(effect.key, effect.operation, effect.outcome) for effect in services.effects()[2:]]
    assert undone == [
        ("o1/ship:1/undo", "recall", "unknown"),
        ("o1/charge:1/undo", "refund", "completed"),
        ("o1/reserve:1/undo", "release", "completed"),
    ]
    assert {step["state"] for step in platform.steps("o1").values()} == {"undone"}
    [entry] = platform.audit("o1")
    assert (entry["action"], entry["reason"]) == ("undo", "the customer has moved")
    assert (entry["before"]["state"], entry["after"]["state"]) == ("error", "undoing")


def test_a_service_that_says_it_will_never_work_stops_the_task_at_once(
    platform: Platform, services: Services
):
    """SAS-07."""
    [process] = platform.serve(EVERYTHING)
    services.refuse("charge")

    platform.submit("deliver", "o1")
    stopped = platform.until("o1", "error")
    process.until_said("alert=task_error task_id=o1")

    assert len(services.asked("charge")) == 1
    assert stopped["error"] == {
        "type": "Permanent",
        "message": "charge is refused",
        "step": "charge:1",
        "permanent": True,
    }
    [alert] = platform.alerts()
    assert (alert["kind"], alert["task_id"], alert["step"]) == ("task_error", "o1", "charge:1")
    assert effects(services) == ["reserve"]


def test_a_service_that_says_it_will_never_work_has_everything_before_it_undone(
    platform: Platform, services: Services
):
    """SAS-05, SAS-25."""
    platform.serve(EVERYTHING)
    services.refuse("ship")

    platform.submit("deliver_or_undo", "o1")
    platform.until("o1", "undone")

    assert len(services.asked("ship")) == 1
    assert effects(services) == ["reserve", "charge", "refund", "release"]
    states = {key: step["state"] for key, step in platform.steps("o1").items()}
    assert states == {"reserve:1": "undone", "charge:1": "undone", "ship:1": "failed"}
    assert platform.alerts() == []


def test_a_task_whose_step_hangs_is_undone_at_its_hard_end(platform: Platform, services: Services):
    """CT-1."""
    platform.serve(EVERYTHING)
    services.hang("ship")

    submitted = platform.submit("deliver_or_undo", "o1", complete_by="2s")
    undone = platform.until("o1", "undone")

    # The hanging step must end at the same instant; whichever is noticed first is named.
    assert undone["error"]["type"] in {"HardEnd", "Expired"}
    [asked] = services.asked("ship")
    assert asked.complete_by == datetime.fromisoformat(submitted["hard_end"]), "no step outlives the task"
    [recall] = services.asked("recall")
    assert recall.at >= asked.complete_by
    undos = [(effect.operation, effect.outcome) for effect in services.effects()[2:]]
    assert undos == [("recall", "unknown"), ("refund", "completed"), ("release", "completed")]


# The undo has trouble


def test_an_undo_that_keeps_failing_is_a_state_of_its_own_until_the_operator_has_done_it_by_hand(
    platform: Platform, services: Services
):
    """SAS-25, CT-3, CT-9."""
    [process] = platform.serve(EVERYTHING)
    services.refuse("ship")
    services.fail("refund")

    platform.submit("deliver_or_undo", "o1")
    platform.until("o1", "undo_failed")
    [alert] = platform.alerts()
    process.until_said("alert=undo_failed task_id=o1")
    listed = platform.get("/v1/tasks?state=undo_failed")["items"]
    platform.type("tasks", "complete-step", "o1", "charge:1", "--reason", "paid back in cash")
    platform.until("o1", "undone")

    assert [one.attempt for one in services.asked("refund")] == [1, 1, 2, 2]
    assert effects(services) == ["reserve", "charge", "release"], "one that is stuck holds up no other"
    assert (alert["kind"], alert["task_id"], alert["step"]) == ("undo_failed", "o1", "charge:1")
    assert "refund is out of order" in alert["message"]
    assert [task["id"] for task in listed] == ["o1"]
    [entry] = platform.audit("o1")
    assert (entry["action"], entry["reason"]) == ("complete-step charge:1", "paid back in cash")
    assert entry["before"]["state"] == "undo_failed"


def test_an_undo_that_is_a_persons_work_waits_for_that_person(platform: Platform, services: Services):
    """CT-9."""
    [process] = platform.serve(EVERYTHING)
    services.refuse("charge")

    platform.submit("deliver_by_hand", "o1")
    process.until_said("alert=undo_manual task_id=o1")
    eventually(lambda: effects(services, "release"), bool, what="the undo of everything else")
    waiting = eventually(
        lambda: platform.task("o1"), lambda task: task["locked_by"] is None, what="nobody holding the task"
    )
    [alert] = platform.alerts(open_only=True)
    platform.type("tasks", "complete-step", "o1", "hand_over:1", "--reason", "it is back")
    platform.until("o1", "undone")

    assert waiting["state"] == "undoing"
    assert (alert["kind"], alert["task_id"], alert["step"]) == ("undo_manual", "o1", "hand_over:1")
    assert effects(services) == ["reserve", "hand_over", "release"]
    assert {key: step["state"] for key, step in platform.steps("o1").items()} == {
        "reserve:1": "undone",
        "hand_over:1": "undone",
        "charge:1": "failed",
    }


# A process dies


def test_a_step_whose_process_is_killed_is_finished_by_another_and_what_was_done_is_not_done_again(
    platform: Platform, services: Services
):
    """SAS-04, SAS-08, SAS-10, SAS-12, VA-06."""
    platform.serve(EVERYTHING, EVERYTHING, **platform.soon_found_dead)
    services.hang("charge")
    platform.submit("deliver", "o1")
    platform.until_asked("charge")

    victim = platform.holder_of("o1")
    victim.kill()
    killed_at = SystemClock().now()
    services.repair("charge")
    processed = platform.until("o1", "processed")

    heir = platform.other_than(victim)
    assert [(one.key, one.attempt, one.pid) for one in services.asked("charge")] == [
        ("o1/charge:1", 1, victim.pid),
        ("o1/charge:1", 2, heir.pid),
    ]
    assert processed["output"] == [DELIVERED[0], "charge by attempt 2", DELIVERED[2]]
    assert [(effect.operation, effect.pid) for effect in services.effects()] == [
        ("reserve", victim.pid),
        ("charge", heir.pid),
        ("ship", heir.pid),
    ]
    # A lease and a period, and what a slow machine adds; with the usual lease it would take longer.
    assert services.asked("charge")[-1].at - killed_at < 8 * SECOND


def test_a_task_whose_scheduler_is_killed_between_two_steps_goes_on_with_the_next(
    platform: Platform, services: Services
):
    """VA-07: all its steps are as they should be, and still nothing would happen."""
    [victim] = platform.serve(EVERYTHING, **platform.soon_found_dead)
    services.hang("ship")
    platform.submit("deliver", "on-the-road")
    platform.until_asked("ship")
    platform.submit("deliver", "between")
    between = eventually(
        lambda: {key: step["state"] for key, step in platform.steps("between").items()},
        lambda steps: steps.get("charge:1") == "completed",
        what="a task that stands in line for the courier",
    )
    held_by = platform.holder_of("between")

    victim.kill()
    services.repair("ship")
    [heir] = platform.serve(EVERYTHING, **platform.soon_found_dead)
    processed = platform.until("between", "processed")

    assert held_by is victim
    assert between == {"reserve:1": "completed", "charge:1": "completed", "ship:1": "pending"}
    assert processed["output"] == DELIVERED
    assert [(effect.operation, effect.pid) for effect in services.effects(task_id="between")] == [
        ("reserve", victim.pid),
        ("charge", victim.pid),
        ("ship", heir.pid),
    ]
    assert platform.until("on-the-road", "processed")["output"][2] == "ship by attempt 2"


@pytest.mark.parametrize(
    "supervise",
    [
        pytest.param(
            lambda platform: json.loads(
                platform.type_on_store("supervise", "--once", "--json", **SHORT_LEASE)
            ),
            id="by-command",
        ),
        pytest.param(lambda platform: platform.post("/v1/supervisor/run", {}), id="over-http"),
    ],
)
def test_where_no_supervisor_runs_one_round_of_it_recovers_what_a_dead_process_left(
    platform: Platform, services: Services, supervise: Callable[[Platform], Any]
):
    """SAS-06, SAS-12."""
    platform.serve(WORKER, WORKER, **SHORT_LEASE)
    services.hang("charge")
    platform.submit("deliver", "o1")
    platform.until_asked("charge")
    victim = platform.holder_of("o1")
    victim.kill()
    services.repair("charge")

    eventually(
        lambda: platform.get("/v1/workflows")["items"][0]["instances"],
        lambda instances: len(instances) == 1,
        what="the end of the dead process's lease",
    )
    left = platform.task("o1")
    made = eventually(
        lambda: supervise(platform), lambda made: made["last_round"]["recovered"], what="a round of use"
    )
    processed = platform.until("o1", "processed")

    assert left["state"] == "processing"
    assert platform.process_of(left["locked_by"]) is victim
    assert (made["ran"], made["last_round"]["recovered"]) == (True, 1)
    assert processed["output"] == [DELIVERED[0], "charge by attempt 2", DELIVERED[2]]
    assert effects(services) == ["reserve", "charge", "ship"]


def test_when_the_leader_is_killed_while_it_recovers_another_leads_and_every_failure_counts_once(
    platform: Platform, services: Services
):
    """SAS-05, SAS-09, LE-1, LE-2."""
    platform.serve(WORKER, "supervisor", "supervisor", **SHORT_LEASE)
    services.hang("charge", attempt=1)
    leader = platform.until_led()
    epoch = platform.supervisor()["epoch"]
    orders = [f"o{number}" for number in range(8)]
    for order in orders:
        platform.submit("deliver_swiftly", order)
    platform.until_asked("charge", orders[0])
    due = datetime.fromisoformat(platform.task(orders[0])["complete_by"])

    eventually(SystemClock().now, lambda now: now > due, what="the first overrun")
    leader.kill()
    tasks = [platform.until(order, "processed") for order in orders]

    assert platform.until_led(lambda process: process is not leader).running
    assert platform.supervisor()["epoch"] > epoch
    assert [task["failure_count"] for task in tasks] == [1] * len(orders)
    assert [platform.steps(order)["charge:1"]["attempt"] for order in orders] == [2] * len(orders)
    assert len(services.asked("reserve")) == len(orders), "what was done before is not done again"


# A process stands still, and goes on


@failure(
    "the leader is stalled",
    of=Part.SUPERVISORS,
    seen="nothing is recovered until its lease is over; then `/v1/supervisor` names another leader",
    heals=(
        "another takes the lead under the next epoch; the old one's writes are refused, and it may "
        "lead again later"
    ),
    takes="`lease` + `supervisor_period`",
    within="30s",
    invariants=(1, 2, 3, 4, 5, 13, 14),
)
def test_when_the_leader_is_stalled_another_leads_and_the_old_one_changes_nothing(
    platform: Platform, services: Services, healing: Healing
):
    """SAS-09, LE-1, LE-3, LE-4, LE-5."""
    _, one, two = platform.serve(WORKER, "supervisor", "supervisor", **SHORT_LEASE)
    services.hang("charge", attempt=1)
    old = platform.until_led()
    epoch = platform.supervisor()["epoch"]

    with healing():
        platform.freeze(old)
        platform.submit("deliver_swiftly", "o1")
        new = platform.until_led(lambda process: process is not old)
        processed = platform.until("o1", "processed")
    led = platform.supervisor()
    old.thaw()
    old.until_said("lead_lost", "instance_dead")
    led_after = platform.supervisor()

    assert {old, new} == {one, two}
    assert led["epoch"] > epoch
    assert (led_after["leader"], led_after["epoch"]) == (led["leader"], led["epoch"])
    assert processed["failure_count"] == 1
    assert platform.task("o1") == processed
    assert not old.said("recovered")
    new.terminate()
    assert new.exit_code() == 0
    assert platform.until_led(lambda process: process is old).running, "it is fit to lead again"
    assert platform.supervisor()["epoch"] > led["epoch"]


def test_a_scheduler_that_stood_still_longer_than_its_lease_finds_its_task_done_and_changes_nothing(
    platform: Platform, services: Services
):
    """SAS-03, SAS-04, SAS-10, SAS-22."""
    platform.serve(EVERYTHING, EVERYTHING, **SHORT_LEASE)
    services.hang("ship")
    platform.submit("deliver", "o1")
    platform.until_asked("ship")
    old = platform.holder_of("o1")

    platform.freeze(old)
    services.repair("ship")
    processed = platform.until("o1", "processed")
    steps = platform.steps("o1")
    old.thaw()
    old.until_said("instance_dead")
    late = eventually(
        lambda: services.effects("ship"),
        lambda found: len(found) == 2,
        what="what the old one was about to do",
    )

    new = platform.other_than(old)
    assert [(one.key, one.attempt, one.pid) for one in late] == [
        ("o1/ship:1", 2, new.pid),
        ("o1/ship:1", 1, old.pid),
    ]
    assert effects(services, "reserve", "charge") == ["reserve", "charge"]
    assert processed["output"] == [*DELIVERED[:2], "ship by attempt 2"]
    eventually(
        lambda: {
            platform.process_of(instance)
            for instance in platform.get("/v1/workflows")["items"][0]["instances"]
        },
        lambda schedulers: schedulers == {old, new},
        what="the old one working again, under a new id",
    )
    assert (platform.task("o1"), platform.steps("o1")) == (processed, steps)


# The store is away


@failure(
    "the store is out of reach for longer than a lease",
    of=Part.DATABASE,
    seen="submissions are refused with 503; `store_unavailable` is logged by everybody; `/readyz` says no",
    heals="everybody waits and tries again; nobody is declared dead for a silence that all shared",
    takes="no longer than the outage, and a look",
    within="30s",
    invariants=(1, 2, 3, 5, 13, 14),
)
def test_when_the_store_is_out_of_reach_for_longer_than_a_lease_the_lead_ends_and_no_process_does(
    platform: Platform, services: Services, healing: Healing
):
    """LE-2, LE-6."""
    worker, *supervisors = platform.serve(WORKER, "supervisor", "supervisor", **SHORT_LEASE)
    leader = platform.until_led()
    epoch = platform.supervisor()["epoch"]

    with platform.kept_from_everybody():
        lapsed_at = SystemClock().now() + SECOND
        for process in (worker, leader):
            process.until_said("store_unavailable")
        eventually(SystemClock().now, lambda now: now > lapsed_at, what="the end of the lease")
    with healing():
        eventually(lambda: platform.supervisor()["epoch"], lambda now: now > epoch, what="a new lead")
        platform.submit("deliver", "o1")
        processed = platform.until("o1", "processed")

    assert processed["output"] == DELIVERED
    assert all(process.running for process in (worker, *supervisors))
    assert effects(services) == ["reserve", "charge", "ship"]
