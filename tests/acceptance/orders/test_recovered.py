"""Orders that meet a failure which passes: no answer in time; schedulers and agents that hang or die."""

from __future__ import annotations

from pathlib import Path

from tests.support.orders_running import (
    AGENTS,
    LONG,
    OFFICE,
    PENDING,
    PROCESSED,
    REPEATED,
    SCHEDULER,
    WAITING,
    Orders,
    is_part_of,
    processing,
    stage_of,
)
from tests.support.platform import eventually

AT_ONCE = 5
DONE = ("received", "started", "completed")


def test_a_charge_that_is_not_answered_in_time_is_counted_and_repeated_and_made_once(tmp_path: Path):
    """Proves SAS-30: what waits for the reply also waits for the complete-by, in whatever process."""
    with Orders(tmp_path) as orders:
        orders.start(OFFICE)
        order_id = orders.place("tok_slow")
        orders.until_told(order_id, "received")

        orders.start(SCHEDULER, AGENTS)

        seen = orders.follow(order_id, REPEATED)
        course = [PENDING, WAITING, PENDING, processing(), processing(failures=1), REPEATED]
        assert is_part_of(seen, course)
        orders.until_told(order_id, *DONE)
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 2}]
        assert orders.open_alerts() == []


# Schedulers


def test_a_charge_that_its_hanging_scheduler_does_not_miss_the_supervisor_has_repeated(tmp_path: Path):
    # The lease is long: nobody takes the process for dead, only the charge for overdue.
    with Orders(tmp_path, payment_complete_by="5s", lease="5m", heartbeat="5s") as orders:
        order_id = orders.place("tok_slow")
        [_, hanging, _] = orders.start(OFFICE, SCHEDULER, AGENTS)
        orders.until_asked_for(order_id)
        assert stage_of(orders.record(order_id)) == processing()

        orders.freeze(hanging)

        orders.start(SCHEDULER)
        orders.until(order_id, REPEATED)
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 2}]
        hanging.thaw()
        hanging.until_said("lease_lost")  # What it says of the order now comes too late.
        assert stage_of(orders.record(order_id)) == REPEATED
        orders.until_told(order_id, *DONE)


def test_what_a_killed_scheduler_leaves_another_one_takes_over_and_the_provider_is_not_asked_again(
    tmp_path: Path,
):
    with Orders(tmp_path, payment_complete_by=LONG) as orders:
        order_id = orders.place("tok_stuck")
        [_, first, _] = orders.start(OFFICE, SCHEDULER, AGENTS)
        orders.until_asked_for(order_id)
        dead = orders.until(order_id, processing())["LockedBy"]
        orders.start(SCHEDULER)

        first.kill()

        heir = eventually(
            lambda: orders.record(order_id),
            lambda record: record["LockedBy"] not in (None, dead),
            what="another holder",
        )
        assert stage_of(heir) == processing()
        orders.repair("tok_stuck")
        orders.until(order_id, PROCESSED)
        orders.until_told(order_id, *DONE)  # The second run of it says nothing new.
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 1}]


# Agents


def test_agents_killed_in_the_middle_of_payments_cost_a_repeat_and_each_order_is_charged_once(tmp_path: Path):
    with Orders(tmp_path, payment_complete_by=LONG) as orders:
        placed = [orders.place("tok_slow") for _ in range(AT_ONCE)]
        [_, _, first] = orders.start(OFFICE, SCHEDULER, AGENTS)
        for order_id in placed:
            orders.until_asked_for(order_id)  # Charged by now; the answer will never come.

        first.kill()

        orders.start(AGENTS)
        for order_id in placed:
            orders.until(order_id, PROCESSED)  # Nobody is to blame: no failure is counted.
            orders.until_told(order_id, *DONE)
        assert sorted(orders.payments(), key=lambda one: placed.index(one["id"])) == [
            {"id": order_id, "cents": 4_200, "state": "charged", "calls": 2} for order_id in placed
        ]


def test_the_late_reply_of_an_agent_that_hung_changes_nothing(tmp_path: Path):
    """Proves SAS-22 and SAS-30: the attempt that was replaced has nothing to say any more."""
    with Orders(tmp_path, payment_complete_by=LONG) as orders:
        order_id = orders.place("tok_stuck")
        [_, _, hanging] = orders.start(OFFICE, SCHEDULER, AGENTS)
        orders.until_asked_for(order_id)

        orders.freeze(hanging)

        orders.start(AGENTS)
        orders.until_asked_for(order_id, calls=2)
        orders.repair("tok_stuck")
        orders.until(order_id, PROCESSED)
        hanging.thaw()
        hanging.until_said("late_reply", "instance_dead")
        assert stage_of(orders.record(order_id)) == PROCESSED
        orders.until_told(order_id, *DONE)
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 2}]
