"""The demo proves what it shows, and would notice if it were not so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drone_delivery.demo.reconcile import DIFFERENCES_MAX, Report, reconcile
from drone_delivery.services.books import Assignment, Books, KeptCheck, KeptDelivery, KeptPackage

PACKAGE = KeptPackage("a", live=True)
CHECK = KeptCheck("a", live=True, required=False)
FLIGHT = Assignment("a", "drone-1", "a", live=True, times=1)
DELIVERY = KeptDelivery("a", "drone-1", live=True, times_created=1)

# Delivery "a" was made, and "b" was undone after its drone had been scheduled.
BOOKS = Books(
    packages=(PACKAGE, KeptPackage("b", live=False)),
    checks=(CHECK, KeptCheck("b", live=False, required=False)),
    assignments=(FLIGHT, Assignment("b", "drone-2", "b", live=False, times=1)),
    deliveries=(DELIVERY,),
    repeated=3,
)
STATES = {"a": "processed", "b": "undone"}


def report(states: dict[str, str] = STATES, **books: Any) -> Report:
    return reconcile(["a", "b"], states, replace(BOOKS, **books))


def test_what_is_complete_or_left_no_trace_reconciles():
    assert report().lines() == [
        "accepted 2", "processed 1", "undone 1", "error 0", "orphaned 0", "duplicates 0", "reconciled: yes",
    ]  # fmt: skip
    assert report().differences == ()


def test_the_numbers_have_the_same_names_in_json():
    assert report().as_dict() == {
        "accepted": 2,
        "processed": 1,
        "undone": 1,
        "error": 0,
        "orphaned": 0,
        "duplicates": 0,
        "reconciled": True,
    }


def test_nothing_accepted_and_nothing_done_reconciles():
    nothing = Books(packages=(), checks=(), assignments=(), deliveries=(), repeated=0)

    assert reconcile([], {}, nothing).reconciled


def test_what_was_cancelled_before_it_began_counts_as_undone():
    cancelled = report(states={"a": "processed", "b": "cancelled"})

    assert (cancelled.error, cancelled.undone) == (0, 1)
    assert cancelled.reconciled


@pytest.mark.parametrize("state", ["error", "undo_failed"])
def test_what_waits_for_a_person_is_accounted_for_if_nothing_is_held_for_it(state: str):
    stopped = report(states={"a": "processed", "b": state})

    assert (stopped.error, stopped.undone) == (1, 0)
    assert stopped.reconciled


@pytest.mark.parametrize(
    "missing",
    [
        {"deliveries": ()},
        {"deliveries": (replace(DELIVERY, live=False),)},
        {"deliveries": (replace(DELIVERY, drone_id="drone-9"),)},
        {"assignments": ()},
        {"assignments": (replace(FLIGHT, live=False),)},
        {"packages": ()},
        {"packages": (replace(PACKAGE, live=False),)},
        {"checks": ()},
        {"checks": (replace(CHECK, required=True),)},
    ],
    ids=", ".join,
)
def test_a_delivery_that_the_books_do_not_show_complete_is_not_processed(missing: dict[str, Any]):
    found = report(**missing)

    assert found.processed == 0
    assert not found.reconciled
    assert "delivery a is processed, which the services' books do not bear out" in found.differences


@pytest.mark.parametrize("state", ["processing", "pending", "undoing", "waiting"])
def test_what_has_not_ended_does_not_reconcile(state: str):
    assert not report(states={"a": "processed", "b": state}).reconciled


def test_what_was_accepted_and_is_not_in_the_store_is_lost():
    found = report(states={"a": "processed"})

    assert not found.reconciled
    assert found.differences == ("delivery b is lost, which the services' books do not bear out",)


LEFT: dict[str, dict[str, Any]] = {
    "check": {"checks": (CHECK, KeptCheck("b", live=True, required=False))},
    "package": {"packages": (PACKAGE, KeptPackage("b", live=True))},
    "drone": {"assignments": (FLIGHT, Assignment("b", "drone-2", "b", live=True, times=1))},
    "delivery": {"deliveries": (DELIVERY, KeptDelivery("b", "drone-2", live=True, times_created=1))},
}


@pytest.mark.parametrize("state", ["undone", "error", "undo_failed", "cancelled"])
@pytest.mark.parametrize("what", LEFT)
def test_whatever_is_held_for_a_delivery_that_is_not_complete_is_orphaned(what: str, state: str):
    found = report(states={"a": "processed", "b": state}, **LEFT[what])

    assert found.orphaned == 1
    assert not found.reconciled
    assert f"a {what} is held for delivery b, which is not complete" in found.differences


def test_deliveries_from_before_are_not_judged():
    found = reconcile(["a"], STATES, replace(BOOKS, **LEFT["drone"]))

    assert (found.accepted, found.processed, found.orphaned) == (1, 1, 0)
    assert found.reconciled


@pytest.mark.parametrize(
    "twice",
    [
        {"assignments": (replace(FLIGHT, times=2),)},
        {"deliveries": (replace(DELIVERY, times_created=2),)},
    ],
    ids=["two drones for a delivery", "created twice"],
)
def test_what_was_done_twice_is_a_duplicate(twice: dict[str, Any]):
    found = report(**twice)

    assert found.duplicates == 1
    assert not found.reconciled


def test_a_drone_in_two_deliveries_is_a_duplicate():
    found = reconcile(
        ["a", "c"],
        {"a": "processed", "c": "processed"},
        replace(
            BOOKS,
            packages=(PACKAGE, replace(PACKAGE, id="c")),
            checks=(CHECK, replace(CHECK, id="c")),
            assignments=(FLIGHT, replace(FLIGHT, delivery_id="c", package_id="c")),
            deliveries=(DELIVERY, replace(DELIVERY, id="c")),
        ),
    )

    assert found.processed == 2
    assert found.duplicates == 1
    assert not found.reconciled


def test_a_drone_that_still_flies_a_delivery_from_before_is_a_duplicate():
    before = Assignment("before", "drone-1", "before", live=True, times=1)

    assert report(assignments=(FLIGHT, before)).duplicates == 1


def test_a_delivery_that_flies_with_the_package_of_another_is_not_complete():
    found = report(
        assignments=(replace(FLIGHT, package_id="b"),), packages=(PACKAGE, KeptPackage("b", live=True))
    )

    assert found.processed == 0
    assert not found.reconciled


def test_only_the_first_differences_are_told():
    many = [f"lost-{number}" for number in range(50)]

    assert len(reconcile(many, {}, BOOKS).differences) == DIFFERENCES_MAX
