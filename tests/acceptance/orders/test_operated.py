"""Orders that a person has to look at: what failed for good, and what is to be undone."""

from __future__ import annotations

from pathlib import Path

from tests.support.orders_running import (
    AGENTS,
    DECLINED,
    GIVEN_UP,
    OFFICE,
    PENDING,
    PROCESSED,
    SCHEDULER,
    TO_UNDO,
    UNDO_UNDER_WAY,
    UNDONE,
    WAITING,
    Orders,
    is_part_of,
    processing,
)

TAKEN_UP = [PENDING, WAITING, PENDING, processing()]


def test_a_declined_card_stops_the_order_until_an_operator_resubmits_it(tmp_path: Path):
    with Orders(tmp_path) as orders:
        orders.start(OFFICE)
        order_id = orders.place("tok_declined")
        orders.until_told(order_id, "received")
        orders.start(SCHEDULER, AGENTS)

        seen = orders.follow(order_id, DECLINED)

        assert is_part_of(seen, [*TAKEN_UP, processing(failures=1), DECLINED])
        assert "the card was declined" in orders.record(order_id)["error"]
        failed = orders.until_told(order_id, "received", "started", "failed")
        assert failed["error"] == "the card was declined"
        [alert] = orders.open_alerts()
        assert (alert["kind"], alert["task_id"], alert["step"]) == ("task_error", order_id, "charge:1")
        why = orders.type("tasks", "why", order_id)
        assert "an operator must act" in why
        assert f"backstay tasks resubmit {order_id}" in why

        orders.repair("tok_declined")
        orders.type("tasks", "resubmit", order_id, "--reason", "the bank lifted the block")

        assert "error" not in orders.until(order_id, PROCESSED)
        told = orders.until_told(order_id, "received", "started", "failed", "started", "completed")
        assert (told["status"], "error" in told) == ("completed", False)
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 2}]
        assert orders.open_alerts() == []


def test_a_provider_that_never_answers_uses_up_the_recoveries_and_an_operator_is_called(tmp_path: Path):
    with Orders(tmp_path, payment_complete_by="1s") as orders:
        orders.start(OFFICE)
        order_id = orders.place("tok_stuck")
        orders.until_told(order_id, "received")
        orders.start(SCHEDULER, AGENTS)

        seen = orders.follow(order_id, GIVEN_UP)

        assert is_part_of(seen, [*TAKEN_UP, *(processing(failures) for failures in range(1, 4)), GIVEN_UP])
        assert "got no answer within" in orders.record(order_id)["error"]
        [alert] = orders.open_alerts()
        assert (alert["kind"], alert["task_id"]) == ("task_error", order_id)
        assert [(one["state"], one["calls"]) for one in orders.payments()] == [("asked", 3)]

        orders.repair("tok_stuck")
        orders.type("tasks", "resubmit", order_id, "--reason", "the provider is back")

        orders.until(order_id, PROCESSED)
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 4}]
        assert orders.open_alerts() == []


def test_an_operator_undoes_a_processed_order_and_the_customer_is_refunded(tmp_path: Path):
    with Orders(tmp_path) as orders:
        order_id = orders.place("tok_visa")
        [_, scheduler, _] = orders.start(OFFICE, SCHEDULER, AGENTS)
        orders.until(order_id, PROCESSED)
        scheduler.terminate()
        assert scheduler.exit_code() == 0

        orders.type("tasks", "undo", order_id, "--yes", "--reason", "the customer sent it back")

        orders.until(order_id, TO_UNDO)  # for as long as no scheduler runs
        assert [one["state"] for one in orders.payments()] == ["charged"]
        orders.start(SCHEDULER)
        seen = orders.follow(order_id, UNDONE)
        assert is_part_of(seen, [TO_UNDO, UNDO_UNDER_WAY, UNDONE])
        orders.until_told(order_id, "received", "started", "completed", "undone")
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "refunded", "calls": 1}]
