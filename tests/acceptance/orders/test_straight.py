"""An order that nothing happens to, and one whose provider is busy for a moment."""

from __future__ import annotations

from pathlib import Path

from tests.support.orders_running import (
    LONG,
    PENDING,
    PROCESSED,
    SCHEDULER,
    SUPERVISOR,
    Orders,
    columns,
    is_part_of,
    processing,
    untouched,
)


def test_an_order_is_pending_until_a_scheduler_comes_then_processing_then_processed(tmp_path: Path):
    with Orders(tmp_path, payment_complete_by=LONG) as orders:
        order_id = orders.place("tok_stuck")
        assert columns(orders.record(order_id)) == untouched(order_id)

        orders.start(SCHEDULER, SUPERVISOR)

        orders.until_asked_for(order_id)
        under_way = orders.until(order_id, processing())
        [task] = orders.tasks()
        assert under_way["LockedBy"] == task["locked_by"]
        assert under_way["CompleteBy"] < task["complete_by"]  # that of the charge, not that of the run
        orders.repair("tok_stuck")
        assert orders.until(order_id, PROCESSED) == {
            "OrderID": order_id,
            "LockedBy": None,
            "CompleteBy": None,
            "ProcessState": "Processed",
            "FailureCount": 0,
            "customer": "ada",
            "cents": 4_200,
        }
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 1}]


def test_a_provider_that_is_busy_for_a_moment_is_asked_again_and_nothing_is_counted(tmp_path: Path):
    with Orders(tmp_path, payment_complete_by=LONG) as orders:
        order_id = orders.place("tok_flaky")

        orders.start(SCHEDULER)

        seen = orders.follow(order_id, PROCESSED)
        assert is_part_of(seen, [PENDING, processing(), PROCESSED])
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 2}]
