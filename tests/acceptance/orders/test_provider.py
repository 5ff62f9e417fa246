"""The payment provider by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.orders_running import Orders, ask

CHARGE = {"cents": 500, "cardToken": "tok_visa"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Orders(tmp_path_factory.mktemp("provider")) as running:
        yield running.provider_url


def test_a_payment_is_charged_once_however_often_it_is_asked_for(url: str):
    statuses = [ask(url, "PUT", "/payments/once", CHARGE).status for _ in range(3)]

    assert statuses == [201, 204, 204]
    assert ask(url, "GET", "/payments/once").content == {
        "id": "once",
        "cents": 500,
        "state": "charged",
        "calls": 3,
    }


def test_what_was_refunded_stays_refunded(url: str):
    ask(url, "PUT", "/payments/back", CHARGE)

    refunds = [ask(url, "DELETE", "/payments/back").status for _ in range(2)]

    assert refunds == [200, 200]
    assert ask(url, "PUT", "/payments/back", CHARGE).status == 409
    assert ask(url, "GET", "/payments/back").content["state"] == "refunded"


def test_a_charge_that_comes_after_its_refund_takes_no_effect(url: str):
    assert ask(url, "DELETE", "/payments/late").status == 404

    late = ask(url, "PUT", "/payments/late", CHARGE)

    assert late.status == 409
    assert ask(url, "GET", "/payments/late").content["cents"] == 0


def test_what_nobody_charged_is_not_there(url: str):
    ask(url, "PUT", "/payments/declined", {**CHARGE, "cardToken": "tok_declined"})

    assert ask(url, "GET", "/payments/declined").status == 404
    assert ask(url, "GET", "/payments/unknown").status == 404


@pytest.mark.parametrize(
    ("token", "statuses"),
    [
        ("tok_visa", [201, 204]),
        ("tok_declined", [402, 402]),
        ("tok_flaky", [503, 201]),
        ("tok_x", [422, 422]),
    ],
)
def test_the_token_decides_how_a_charge_goes(url: str, token: str, statuses: list[int]):
    charge = {"cents": 500, "cardToken": token}

    assert [ask(url, "PUT", f"/payments/by-{token}", charge).status for _ in range(2)] == statuses
