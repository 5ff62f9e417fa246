"""The payment provider by itself."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.orders_running import Orders, ask, environment
from tests.support.platform import PATIENCE_SECONDS

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


def test_a_payment_stays_what_was_charged_when_another_amount_is_asked_for(url: str):
    ask(url, "PUT", "/payments/same", CHARGE)

    other = ask(url, "PUT", "/payments/same", {**CHARGE, "cents": 900})

    assert (other.status, other.content["detail"]) == (409, "this payment was charged with another amount")
    assert ask(url, "GET", "/payments/same").content["cents"] == 500
    assert ask(url, "PUT", "/payments/same", CHARGE).status == 204


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


# How it starts


def test_a_port_in_use_is_told_in_one_line_and_nothing_is_written(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        code, said = run_provider(tmp_path, "--port", str(port))

    assert code == 1
    assert said == [
        f"payment provider: cannot listen on 127.0.0.1:{port}: Address already in use; give another --port"
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_told_in_one_line_and_left_as_it_is(tmp_path: Path):
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear Ada,\n" * 10)

    code, said = run_provider(tmp_path, "--port", "0", "--database", letter.name)

    assert code == 1
    assert said == [
        "payment provider: cannot use letter.txt: file is not a database; give another --database"
    ]
    assert letter.read_text() == "Dear Ada,\n" * 10


def test_a_database_in_a_folder_that_is_not_there_is_told_in_one_line(tmp_path: Path):
    code, said = run_provider(tmp_path, "--port", "0", "--database", "nowhere/its.db")

    assert code == 1
    assert said == [
        "payment provider: cannot use nowhere/its.db: unable to open database file; give another --database"
    ]


@pytest.mark.parametrize("port", ["99999", "-1", "http"])
def test_what_is_no_port_is_a_mistake_in_the_command(tmp_path: Path, port: str):
    code, said = run_provider(tmp_path, f"--port={port}")

    assert code == 2
    assert said[-1].endswith(f"'{port}' is no port; give a whole number from 0 to 65535")


def run_provider(folder: Path, *options: str) -> tuple[int, list[str]]:
    """The exit code of a provider that does not start, and the lines that it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "orders.payment", *options],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode, done.stderr.splitlines()
