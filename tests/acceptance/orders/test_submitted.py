"""Message, row and task of an order change together, or not at all; a repeated request is one order.

Proves SAS-26 and IC-2.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from orders.web import order_id_for
from tests.support.orders_running import (
    AGENTS,
    EMPTY,
    INGEST,
    OFFICE,
    PROCESSED,
    SCHEDULER,
    Orders,
    order_with,
)
from tests.support.platform import eventually

AT_ONCE = 16
KEY = "again-and-again"

#: In the middle of its transaction, whoever writes a row counts for minutes.
_FOR_MINUTES = """
    CREATE TRIGGER for_minutes AFTER INSERT ON orders BEGIN
        SELECT count(*) FROM (WITH RECURSIVE number (n) AS
            (SELECT 1 UNION ALL SELECT n + 1 FROM number LIMIT 100000000000) SELECT n FROM number);
    END
"""


def accepted(orders: Orders) -> list[tuple[str, int]]:
    """The orders that are rows, and tasks as well."""
    assert orders.rows("SELECT 1 FROM orders FULL JOIN task USING (id) WHERE cents * key IS NULL") == []
    return orders.rows("SELECT id, cents FROM orders ORDER BY rowid")


# Killed


def test_a_submission_process_killed_between_receiving_and_committing_costs_nothing(tmp_path: Path):
    with Orders(tmp_path, message_lock="2s") as orders:
        [office] = orders.start(OFFICE)
        before = orders.place("tok_visa")
        orders.until_told(before, "received")

        with rows_taking_minutes(orders):
            order_id = orders.place("tok_visa")
            eventually(lambda: in_the_middle(orders), bool, what="a transaction that does not end")
            office.kill()

        assert accepted(orders) == [(before, 4_200)]
        assert orders.until_told(order_id)["status"] == "placed"
        orders.start(INGEST)
        orders.until_told(order_id, "received")
        assert accepted(orders) == [(before, 4_200), (order_id, 4_200)]
        assert orders.queue("orders") == EMPTY


@contextmanager
def rows_taking_minutes(orders: Orders) -> Iterator[None]:
    with closing(sqlite3.connect(orders.folder / "orders.db")) as connection:
        connection.execute(_FOR_MINUTES)
        yield
        connection.execute("DROP TRIGGER for_minutes")


def in_the_middle(orders: Orders) -> bool:
    """Whether a message is received, and whoever has it keeps the file from all others."""
    if orders.queue("orders")["locked"] == 0:
        return False
    try:
        with orders.writing(timeout=1.0):
            return False
    except sqlite3.OperationalError:
        return True


# Refused


def test_an_order_of_that_id_with_other_content_is_set_aside_with_an_alert_and_overwrites_nothing(
    tmp_path: Path,
):
    with Orders(tmp_path) as orders:
        orders.start(OFFICE)
        order_id = orders.place("tok_visa")
        orders.until_told(order_id, "received")

        other = orders.send({"id": order_id, **order_with("tok_visa", cents=1)})

        assert "other content" in orders.until_set_aside(other)["reason"]
        [alert] = orders.open_alerts()
        assert (alert["kind"], alert["task_id"]) == ("submission_conflict", order_id)
        assert accepted(orders) == [(order_id, 4_200)]
        assert orders.record(order_id)["cents"] == 4_200
        assert orders.standing(order_id)["cents"] == 4_200


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("three apples", "object"),
        ({"apples": 3}, "apples"),
        ({"id": "1", **order_with("tok_visa", cents=0)}, "cents"),
        ({"id": "a/b", **order_with("tok_visa")}, "id"),
        (order_with("tok_visa"), "id"),
    ],
)
def test_a_message_that_is_no_order_is_set_aside_and_leaves_nothing(
    one_office: Orders, body: object, named: str
):
    message_id = one_office.send(body)

    assert named in one_office.until_set_aside(message_id)["reason"]
    assert len(accepted(one_office)) == 1


@pytest.fixture(scope="module")
def one_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orders]:
    """It has accepted one order."""
    with Orders(tmp_path_factory.mktemp("orders")) as running:
        running.start(OFFICE)
        running.until_told(running.place("tok_visa"), "received")
        yield running


def test_other_content_under_a_key_is_refused_and_nothing_is_sent(tmp_path: Path):
    with Orders(tmp_path) as orders:
        first = orders.post(order_with("tok_visa"), "k")

        refused = orders.post(order_with("tok_visa", cents=1), "k")

        assert refused.status == 422
        assert refused.headers["content-type"] == "application/problem+json"
        assert "Idempotency-Key" in refused.content["detail"]
        assert orders.all() == [first.content]
        assert orders.queue("orders") == {**EMPTY, "ready": 1}


# Repeated


def test_a_key_is_its_customers_own(tmp_path: Path):
    with Orders(tmp_path) as orders:
        ada, bob = order_with("tok_visa"), order_with("tok_visa", customer="bob")

        placed = [orders.post(order, "k") for order in (ada, bob, ada, bob)]

        assert [answer.status for answer in placed] == [202] * 4
        ids = [answer.content["id"] for answer in placed]
        assert ids == [order_id_for("ada", "k"), order_id_for("bob", "k")] * 2
        assert [(one["id"], one["customer"]) for one in orders.all()] == [(ids[1], "bob"), (ids[0], "ada")]


@pytest.mark.parametrize("separator", ["/", ":", ",", "|", "-", "."])
def test_no_customer_and_key_make_the_id_of_another_customer_and_key(separator: str):
    assert order_id_for(f"a{separator}b", "c") != order_id_for("a", f"b{separator}c")


def test_many_requests_with_one_key_are_one_message_one_row_one_task_and_one_charge(tmp_path: Path):
    with Orders(tmp_path) as orders:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda _: orders.post(order_with("tok_visa"), KEY), range(AT_ONCE)))
        order_id = order_id_for("ada", KEY)
        assert orders.queue("orders") == {**EMPTY, "ready": 1}
        orders.start(OFFICE, SCHEDULER, AGENTS)
        orders.until(order_id, PROCESSED)

        assert {(answer.status, answer.content["id"]) for answer in answers} == {(202, order_id)}
        assert [one["id"] for one in orders.all()] == [order_id]
        assert accepted(orders) == [(order_id, 4_200)]
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 1}]


def test_the_same_order_in_another_message_is_the_same_order(tmp_path: Path):
    """However long ago the first one came, and whoever sends it again."""
    with Orders(tmp_path) as orders:
        orders.start(OFFICE)
        order_id = orders.place("tok_visa")
        orders.until_told(order_id, "received")

        orders.send({"id": order_id, **order_with("tok_visa")}, id="again")

        eventually(lambda: orders.queue("orders"), EMPTY.__eq__, what="an empty queue")
        assert accepted(orders) == [(order_id, 4_200)]
        orders.until_told(order_id, "received")


def test_without_a_key_each_request_is_an_order_and_the_newest_is_listed_first(tmp_path: Path):
    with Orders(tmp_path) as orders:
        orders.start(OFFICE)
        placed = [orders.place("tok_visa") for _ in range(3)]

        assert [one["id"] for one in orders.all()] == placed[::-1]
        for order_id in placed:
            orders.until_told(order_id, "received")
        assert sorted(accepted(orders)) == sorted((order_id, 4_200) for order_id in placed)
