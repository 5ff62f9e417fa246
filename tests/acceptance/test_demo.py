"""The demo proves what it shows, and would notice if it were not so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.orders_demo.reconcile import reconcile
from examples.orders_demo.services import Effect

ROOT = Path(__file__).resolve().parents[2]


def effects(*done: tuple[str, str]) -> list[Effect]:
    """One effect for each (order, operation), each under a key of its own."""
    return [
        Effect(f"{order}/{operation}/{number}", order, operation, 1)
        for number, (order, operation) in enumerate(done)
    ]


GOOD = [("a", "reserve"), ("a", "charge"), ("a", "ship")]
UNDONE = [("b", "reserve"), ("b", "charge"), ("b", "refund"), ("b", "release")]
STATES = {"a": "processed", "b": "undone"}


def test_orders_survive_a_kill_and_everything_reconciles():
    done = subprocess.run(
        [sys.executable, "-m", "examples.orders_demo", "--seconds", "3", "--kills", "1", "--rate", "60"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("kill -9") == 1
    assert done.stdout.count("is at work") == 2
    last = [line.rpartition(" ") for line in done.stdout.splitlines()[-7:]]
    numbers = {name: value for name, _, value in last}
    assert list(numbers) == [
        "accepted",
        "processed",
        "undone",
        "error",
        "duplicates",
        "orphaned",
        "reconciled:",
    ]
    assert numbers["reconciled:"] == "yes"
    assert int(numbers["accepted"]) == int(numbers["processed"]) + int(numbers["undone"]) > 50
    assert int(numbers["undone"]) > 0


@pytest.mark.parametrize("option", ["--kills=-1", "--kills=11", "--seconds=0", "--rate=fast"])
def test_an_option_out_of_range_is_refused(option: str):
    done = subprocess.run(
        [sys.executable, "-m", "examples.orders_demo", option],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "is no whole number from" in done.stderr


def test_what_was_done_once_or_taken_back_reconciles():
    report = reconcile(["a", "b"], STATES, effects(*GOOD, *UNDONE))

    assert report.reconciled
    assert report.lines() == [
        "accepted 2", "processed 1", "undone 1", "error 0", "duplicates 0", "orphaned 0", "reconciled: yes",
    ]  # fmt: skip


def test_a_call_that_came_twice_under_one_key_is_no_duplicate():
    log = [*effects(*GOOD[1:]), Effect("a/reserve", "a", "reserve", 2)]

    report = reconcile(["a"], STATES, log)

    assert (report.reconciled, report.repeated) == (True, 1)


@pytest.mark.parametrize(
    ("states", "log", "wrong"),
    [
        (STATES, [*GOOD, *UNDONE, ("a", "charge")], "duplicates"),
        (STATES, [*GOOD, *UNDONE[:-1]], "orphaned"),
        (STATES, [*GOOD[:-1], *UNDONE], "orphaned"),
        (STATES, [*GOOD, ("a", "refund"), *UNDONE], "orphaned"),
        (STATES, [*GOOD, *UNDONE, ("stranger", "charge")], "orphaned"),
        (STATES | {"b": "error"}, [*GOOD, *UNDONE], "error"),
        (STATES | {"b": "undo_failed"}, [*GOOD, *UNDONE], "error"),
    ],
)
def test_whatever_is_wrong_is_counted_and_does_not_reconcile(
    states: dict[str, str], log: list[tuple[str, str]], wrong: str
):
    report = reconcile(["a", "b"], states, effects(*log))

    assert getattr(report, wrong) == 1
    assert not report.reconciled


def test_an_order_that_the_store_lost_does_not_reconcile():
    report = reconcile(["a", "b", "lost"], STATES, effects(*GOOD, *UNDONE))

    assert not report.reconciled
    assert report.accepted == 3
