"""An order that nothing happens to, and one whose provider is busy for a moment."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from tests.support.orders_running import (
    AGENTS,
    DESK,
    EMPTY,
    INGEST,
    LONG,
    OFFICE,
    PENDING,
    PROCESSED,
    SCHEDULER,
    WAITING,
    Orders,
    columns,
    is_part_of,
    order_with,
    processing,
    untouched,
)


def test_an_order_goes_from_process_to_process_and_waits_for_each_that_is_not_there(tmp_path: Path):
    """Proves SAS-11 as a customer sees it."""
    with Orders(tmp_path, payment_complete_by=LONG) as orders:
        order_id = orders.place("tok_stuck")
        orders.start(DESK)
        assert orders.until_told(order_id)["status"] == "placed"
        assert orders.queue("orders") == {**EMPTY, "ready": 1}
        assert orders.record(order_id) is None

        orders.start(INGEST)
        assert orders.until_told(order_id, "received")["status"] == "received"
        assert columns(orders.record(order_id)) == untouched(order_id)
        assert orders.queue("orders") == EMPTY

        orders.start(SCHEDULER)
        orders.until(order_id, WAITING)
        orders.until_told(order_id, "received", "started")
        assert "waits for agent 'payment', which no live process has" in orders.type("tasks", "why", order_id)

        orders.start(AGENTS)
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
        assert orders.until_told(order_id, "received", "started", "completed")["status"] == "completed"
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 1}]


def test_the_agent_is_told_everything_it_needs_and_until_when(tmp_path: Path):
    """Proves SAS-02."""
    with Orders(tmp_path, payment_complete_by=LONG) as orders:
        order_id = orders.place("tok_stuck")
        orders.start(OFFICE, SCHEDULER, AGENTS)
        orders.until_asked_for(order_id)

        [(body,)] = orders.rows("SELECT body FROM agent_request")

        request = json.loads(body)
        assert request["input"] == {"id": order_id, **order_with("tok_stuck")}
        assert (request["operation"], request["idempotency_key"]) == ("charge", f"{order_id}/charge:1")
        due = datetime.fromisoformat(orders.until(order_id, processing())["CompleteBy"])
        assert datetime.fromisoformat(request["complete_by"]) == due
        assert 0 < request["remaining_seconds"] <= 60


def test_a_provider_that_is_busy_for_a_moment_is_asked_again_and_nothing_is_counted(tmp_path: Path):
    with Orders(tmp_path, payment_complete_by=LONG) as orders:
        orders.start(OFFICE)
        order_id = orders.place("tok_flaky")
        orders.until_told(order_id, "received")

        orders.start(SCHEDULER, AGENTS)

        seen = orders.follow(order_id, PROCESSED)
        assert is_part_of(seen, [PENDING, WAITING, PENDING, processing(), PROCESSED])
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 2}]
