"""The ids of tasks and of their children."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.domain.task import ID_LENGTH_MAX, check_id, child_id, first_record
from backstay.errors import InvalidId
from backstay.testing.records import NOON, a_task, new_task, replace

IDS = st.text("ABCxyz019._:@~-", min_size=1, max_size=ID_LENGTH_MAX)


@pytest.mark.parametrize(
    "value", ["a", "delivery-17", "job:7:1:2030-01-01T00:00:00Z", "a.b_c:d@e~f-g", "x" * 200]
)
def test_a_well_formed_id_is_taken_as_it_is(value: str):
    assert check_id(value) == value


@pytest.mark.parametrize(
    "value", ["", "x" * 201, "a b", "a/b", "ä", "a\n", "\n", "a\x00", "%20", None, 7, b"a", ["a"]]
)
def test_any_other_id_is_refused_by_name_with_the_rule(value: object):
    with pytest.raises(
        InvalidId, match=r"^reply_to is .*; an id has 1 to 200 characters out of letters, digits and"
    ):
        check_id(value, name="reply_to")


def test_a_long_wrong_id_is_shortened_in_the_complaint():
    with pytest.raises(InvalidId) as refused:
        check_id("ä" * 100_000)

    assert len(str(refused.value)) < 250


def test_a_childs_id_shows_its_parent_and_its_place_in_the_parents_journal():
    assert child_id("order-7", "2.pack:1") == "order-7:2.pack:1"


@given(parent=IDS, key=IDS)
def test_a_childs_id_is_always_an_id(parent: str, key: str):
    assert check_id(child_id(parent, key))


def test_children_of_a_long_id_are_told_apart():
    parent = "x" * ID_LENGTH_MAX

    ids = {child_id(parent, "pack:1"), child_id(parent, "pack:2"), child_id(parent[:-1] + "y", "pack:1")}

    assert len(ids) == 3


def test_a_childs_id_is_the_same_every_time():
    assert child_id("x" * 199, "pack:1") == child_id("x" * 199, "pack:1")


def test_a_task_enters_pending_and_free_with_what_it_was_submitted_with():
    new = new_task("order-7", hard_end=NOON, reply_to="queue:me", attributes={"customer": "c9"})

    record = first_record(7, new, NOON)

    carried = {"hard_end": NOON, "reply_to": "queue:me", "attributes": {"customer": "c9"}}
    assert record == replace(a_task(), key=7, id="order-7", **carried)
