"""What the web application is told of its orders: each status once and in order, whatever is killed.

Proves SAS-11 and CC-4.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from orders.book import Book
from orders.order import Order
from tests.support.orders_running import (
    AGENTS,
    EMPTY,
    OFFICE,
    PENDING,
    PROCESSED,
    SCHEDULER,
    Orders,
    ask,
    stage_of,
)
from tests.support.platform import eventually

AT_ONCE = 8
DONE = ("received", "started", "completed")


def messages_of(orders: Orders, order_id: str) -> list[str]:
    """The ids of the status messages that wait in the application's queue, as they would be received."""
    items = ask(orders.desk_url, "GET", "/v1/queues/order-status/messages?limit=1000").content["items"]
    waiting = [one for one in items if one["properties"]["correlation_id"] == order_id]
    assert all(one["body"]["task_id"] == one["session"] == order_id for one in waiting)
    return [one["id"] for one in waiting]


def test_statuses_lie_in_the_applications_queue_each_once_and_in_order_until_it_reads_them(tmp_path: Path):
    with Orders(tmp_path) as orders:
        placed = [orders.place("tok_visa") for _ in range(AT_ONCE)]
        orders.web.kill()
        orders.start(OFFICE, SCHEDULER, AGENTS)
        for order_id in placed:
            orders.until(order_id, PROCESSED)

        for order_id in placed:
            expected = [f"{order_id}:{status}:{number}" for number, status in enumerate(DONE, start=1)]
            assert messages_of(orders, order_id) == expected

        orders.start_web()
        for order_id in placed:
            told = orders.until_told(order_id, *DONE)
            assert told["status"] == "completed"
            assert told["history"] == sorted(told["history"], key=lambda one: one["at"])
        until_settled(orders)


def test_the_web_application_killed_again_and_again_misses_no_status(tmp_path: Path):
    with Orders(tmp_path, message_lock="1s") as orders:
        orders.start(OFFICE, SCHEDULER, AGENTS)
        placed: list[str] = []

        for _ in range(3):
            first, *others = [orders.place("tok_visa") for _ in range(AT_ONCE)]
            until_heard_of(orders, first)
            orders.web.kill()
            orders.start_web()
            placed += [first, *others]

        for order_id in placed:
            orders.until_told(order_id, *DONE)
        assert sorted(one["id"] for one in orders.payments()) == sorted(placed)


def until_heard_of(orders: Orders, order_id: str) -> None:
    eventually(lambda: orders.standing(order_id)["status"], "placed".__ne__, what="a status")


def until_settled(orders: Orders) -> None:
    eventually(lambda: orders.queue("order-status"), EMPTY.__eq__, what="an empty queue")


def test_a_status_that_was_written_down_and_not_settled_comes_again_and_is_shown_once(tmp_path: Path):
    """Proves IC-2: what was told, and the id by which it is known again, are one row of the book."""
    with Orders(tmp_path, message_lock="2s") as orders, ExitStack() as book_kept_shut:
        order_id = orders.place("tok_visa")
        book_kept_shut.enter_context(orders.writing("web.db"))
        orders.start(OFFICE)
        eventually(lambda: orders.queue("order-status")["locked"], bool, what="a status in hand")

        with orders.writing():  # From here on nobody can settle it ...
            book_kept_shut.close()
            orders.until_told(order_id, "received")
            orders.web.kill()

        received = f"{order_id}:received:1"
        assert orders.rows("SELECT id, state, delivery_count FROM message") == [(received, "locked", 1)]
        orders.start_web()  # ... so here it comes again.
        until_settled(orders)
        orders.until_told(order_id, "received")


def test_an_order_that_was_written_down_and_not_sent_is_sent_at_the_next_start(tmp_path: Path):
    with Orders(tmp_path) as orders:
        orders.web.kill()
        Book(str(tmp_path / "web.db")).place(Order(id="o1", customer="ada", cents=1, card_token="tok_visa"))

        orders.start_web()

        assert orders.queue("orders") == {**EMPTY, "ready": 1}
        orders.start(OFFICE)
        orders.until_told("o1", "received")
        assert stage_of(orders.record("o1")) == PENDING
