"""Orders that meet a failure which passes: no answer in time, and schedulers that hang or are killed."""

from __future__ import annotations

from pathlib import Path

from tests.support.orders_running import (
    LONG,
    PENDING,
    PROCESSED,
    REPEATED,
    SCHEDULER,
    SUPERVISOR,
    Orders,
    is_part_of,
    processing,
    stage_of,
)
from tests.support.platform import eventually


def test_a_charge_that_is_not_answered_in_time_is_counted_and_repeated_and_made_once(tmp_path: Path):
    with Orders(tmp_path) as orders:
        order_id = orders.place("tok_slow")

        orders.start(SCHEDULER, SUPERVISOR)

        seen = orders.follow(order_id, REPEATED)
        assert is_part_of(seen, [PENDING, processing(), processing(failures=1), REPEATED])
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 2}]
        assert orders.open_alerts() == []


def test_a_charge_that_its_hanging_scheduler_does_not_miss_the_supervisor_has_repeated(tmp_path: Path):
    # The lease is long: nobody takes the process for dead, only the charge for overdue.
    with Orders(tmp_path, payment_complete_by="5s", lease="5m", heartbeat="5s") as orders:
        order_id = orders.place("tok_slow")
        [hanging, _] = orders.start(SCHEDULER, SUPERVISOR)
        orders.until_asked_for(order_id)
        assert stage_of(orders.record(order_id)) == processing()

        orders.freeze(hanging)

        orders.start(SCHEDULER)
        orders.until(order_id, REPEATED)
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 2}]
        hanging.thaw()
        hanging.until_said("lease_lost")  # What it says of the order now comes too late.
        assert stage_of(orders.record(order_id)) == REPEATED


def test_what_a_killed_scheduler_leaves_another_one_takes_over(tmp_path: Path):
    with Orders(tmp_path, payment_complete_by=LONG) as orders:
        order_id = orders.place("tok_stuck")
        [first, _] = orders.start(SCHEDULER, SUPERVISOR)
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
        orders.until_asked_for(order_id, calls=2)
        orders.repair("tok_stuck")
        orders.until(order_id, PROCESSED)
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 2}]
