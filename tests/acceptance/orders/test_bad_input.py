"""What a customer sends that is no order: a problem that names the field, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.orders_running import Orders, ask, order_with

CARD_NUMBER = "4242424242424242"
GOOD = order_with("tok_visa")


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orders]:
    """Only the web: nobody fulfils anything here."""
    with Orders(tmp_path_factory.mktemp("orders")) as running:
        yield running


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        (b"{", 400, "JSON"),
        (b"\xff", 400, "JSON"),
        (b'{"customer": "\xff"}', 400, "JSON"),
        ([], 422, "object"),
        (without("customer"), 422, "customer"),
        (without("cents"), 422, "cents"),
        (without("cardToken"), 422, "cardToken"),
        ({**GOOD, "customer": ""}, 422, "customer"),
        ({**GOOD, "customer": "a\nb"}, 422, "customer"),
        ({**GOOD, "customer": "ada\n"}, 422, "customer"),
        ({**GOOD, "customer": "a" * 101}, 422, "customer"),
        ({**GOOD, "customer": None}, 422, "customer"),
        ({**GOOD, "cents": 0}, 422, "cents"),
        ({**GOOD, "cents": 100_000_001}, 422, "cents"),
        ({**GOOD, "cents": 1.5}, 422, "cents"),
        ({**GOOD, "cents": "5"}, 422, "cents"),
        ({**GOOD, "cents": True}, 422, "cents"),
        ({**GOOD, "cardToken": "tok_visa\n"}, 422, "cardToken"),
        ({**GOOD, "cardToken": CARD_NUMBER}, 422, "cardToken"),
        ({**GOOD, "id": "mine"}, 422, "id"),
        ({**GOOD, "customer": "a" * 20_000}, 413, "16,384"),
    ],
)
def test_what_is_no_order_is_refused_by_name(orders: Orders, body: Any, status: int, named: str):
    refused = orders.post(body)

    assert (refused.status, refused.headers["content-type"]) == (status, "application/problem+json")
    assert refused.content["status"] == status
    assert named in refused.content["detail"]
    assert nothing_there(orders)


@pytest.mark.parametrize(
    "keys", [[""], ["k" * 201], ["a\tb"], ["a b"], ["clé"], ["k", "k"], ["k", "other"], ["k", ""]]
)
def test_a_key_that_is_none_is_refused_by_name(orders: Orders, keys: list[str]):
    refused = orders.post(GOOD, *keys)

    assert (refused.status, refused.headers["content-type"]) == (422, "application/problem+json")
    assert "Idempotency-Key" in refused.content["detail"]
    assert nothing_there(orders)


def test_what_a_form_of_another_site_can_send_is_refused(orders: Orders):
    refused = ask(orders.web_url, "POST", "/orders", GOOD, content_type="text/plain")

    assert refused.status == 415
    assert nothing_there(orders)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/orders/unknown", 404), ("GET", "/orders/a/b", 404), ("DELETE", "/orders", 405)],
)
def test_what_is_not_there_is_a_problem_as_well(orders: Orders, method: str, path: str, status: int):
    refused = ask(orders.web_url, method, path)

    assert (refused.status, refused.headers["content-type"]) == (status, "application/problem+json")


@pytest.mark.parametrize(
    "body",
    [
        {**GOOD, "cardToken": CARD_NUMBER},
        {**GOOD, "card": CARD_NUMBER},
        {**without("cardToken"), "card": {"number": CARD_NUMBER}},
        f'{{"cardToken": "{CARD_NUMBER}"'.encode(),
    ],
)
def test_a_card_number_is_in_no_answer_no_log_and_no_file(orders: Orders, body: Any):
    refused = orders.post(body)

    assert refused.status in (400, 422)
    assert CARD_NUMBER not in str(refused)
    files = [file for file in orders.folder.rglob("*") if file.is_file()]
    assert [file for file in files if CARD_NUMBER.encode() in file.read_bytes()] == []


def test_a_card_token_is_in_no_answer_and_no_log(tmp_path: Path):
    with Orders(tmp_path) as orders:
        placed = orders.post(GOOD)

        assert placed.status == 202
        assert GOOD["cardToken"] not in str([placed, orders.standing(placed.content["id"]), orders.all()])
        assert GOOD["cardToken"] not in orders.said()


def nothing_there(orders: Orders) -> bool:
    return orders.all() == [] and orders.rows("SELECT id FROM message UNION SELECT id FROM task") == []
