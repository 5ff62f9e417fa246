"""The row of an order and its task commit together, or not at all; a repeated request is one order."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orders.web import order_id_for
from tests.support.orders_running import (
    APPLICATION,
    PROCESSED,
    SCHEDULER,
    Orders,
    ask,
    columns,
    order_with,
    untouched,
)

AT_ONCE = 16
KEY = "again-and-again"


def test_an_order_whose_task_is_refused_leaves_no_row(tmp_path: Path):
    with Orders(tmp_path) as orders:
        order_id = order_id_for("ada", "k")
        other = json.dumps({"id": order_id, **order_with("tok_visa", cents=1)})
        orders.type_on_store("submit", APPLICATION, "fulfil", other, "--id", order_id)

        refused = orders.post(order_with("tok_visa"), "k")

        assert refused.status == 422
        assert ask(orders.web_url, "GET", f"/orders/{order_id}").status == 404
        assert orders.all() == []
        assert [task["id"] for task in orders.tasks()] == [order_id]


def test_other_content_under_a_key_is_refused_and_changes_nothing(tmp_path: Path):
    with Orders(tmp_path) as orders:
        first = orders.post(order_with("tok_visa"), "k")

        refused = orders.post(order_with("tok_visa", cents=1), "k")

        assert refused.status == 422
        assert refused.headers["content-type"] == "application/problem+json"
        assert "Idempotency-Key" in refused.content["detail"]
        assert orders.all() == [first.content]
        assert len(orders.tasks()) == 1


def test_a_key_is_its_customers_own(tmp_path: Path):
    with Orders(tmp_path) as orders:
        ada, bob = order_with("tok_visa"), order_with("tok_visa", customer="bob")

        placed = [orders.post(order, "k") for order in (ada, bob, ada, bob)]

        assert [answer.status for answer in placed] == [202] * 4
        ids = [answer.content["OrderID"] for answer in placed]
        assert ids == [order_id_for("ada", "k"), order_id_for("bob", "k")] * 2
        assert [(one["OrderID"], one["customer"]) for one in orders.all()] == [
            (ids[1], "bob"),
            (ids[0], "ada"),
        ]


@pytest.mark.parametrize("separator", ["/", ":", ",", "|", "-", "."])
def test_no_customer_and_key_make_the_id_of_another_customer_and_key(separator: str):
    assert order_id_for(f"a{separator}b", "c") != order_id_for("a", f"b{separator}c")


def test_many_requests_with_one_key_are_one_row_one_task_and_one_charge(tmp_path: Path):
    with Orders(tmp_path) as orders:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda _: orders.post(order_with("tok_visa"), KEY), range(AT_ONCE)))
        order_id = order_id_for("ada", KEY)
        orders.start(SCHEDULER)
        orders.until(order_id, PROCESSED)

        assert {answer.status for answer in answers} == {202}
        assert all(columns(answer.content) == untouched(order_id) for answer in answers)
        assert [record["OrderID"] for record in orders.all()] == [order_id]
        assert [task["id"] for task in orders.tasks()] == [order_id]
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 1}]


def test_without_a_key_each_request_is_an_order_and_the_newest_is_listed_first(tmp_path: Path):
    with Orders(tmp_path) as orders:
        placed = [orders.place("tok_visa") for _ in range(3)]

        assert [record["OrderID"] for record in orders.all()] == placed[::-1]
        assert sorted(task["id"] for task in orders.tasks()) == sorted(placed)
