"""Claim checks: a large value stays out of its row, which holds its digest instead. And old reports."""

from __future__ import annotations

import hashlib

import pytest

from backstay.store.base import Report
from backstay.store.rows import Outgoing, claim_check, claimed_values, value_of
from backstay.store.sqlite.rows import SHAPE
from backstay.testing.records import new_task

SMALL, LARGE = b'"small"', b'"much too large for a row"'
INLINE_BYTES_MAX = len(SMALL)
DIGEST = hashlib.sha256(LARGE).hexdigest()
CHECK = b"@" + DIGEST.encode()


@pytest.fixture
def outgoing() -> Outgoing:
    return Outgoing(INLINE_BYTES_MAX)


# On the way into a row


def test_a_claim_check_is_a_mark_that_no_json_begins_with_and_the_digest():
    assert claim_check(LARGE) == CHECK


def test_a_value_up_to_the_limit_stays_in_its_row(outgoing: Outgoing):
    assert outgoing.value(7, SMALL) == SMALL
    assert outgoing.payloads == []


def test_a_value_above_the_limit_leaves_its_claim_check_and_is_set_aside(outgoing: Outgoing):
    assert outgoing.value(7, LARGE) == CHECK
    assert outgoing.payloads == [(7, DIGEST, LARGE)]


def test_one_byte_more_than_the_limit_is_large(outgoing: Outgoing):
    assert not outgoing.is_large(b"x" * INLINE_BYTES_MAX)
    assert outgoing.is_large(b"x" * (INLINE_BYTES_MAX + 1))


def test_no_value_is_none_in_the_row_as_well(outgoing: Outgoing):
    assert outgoing.value(7, None) is None
    assert outgoing.payloads == []


def test_an_empty_value_is_a_value(outgoing: Outgoing):
    assert Outgoing(0).value(7, b"") == b""
    assert outgoing.value(7, b"") == b""


def test_the_input_of_a_task_without_a_key_is_set_aside_once_it_has_one(outgoing: Outgoing):
    new = new_task(input=LARGE)

    assert outgoing.input_of(new) == CHECK
    assert outgoing.payloads == []
    outgoing.entered(7, new)
    assert outgoing.payloads == [(7, DIGEST, LARGE)]


def test_the_small_input_of_a_task_is_nowhere_set_aside(outgoing: Outgoing):
    new = new_task(input=SMALL)

    assert outgoing.input_of(new) == SMALL
    outgoing.entered(7, new)
    assert outgoing.payloads == []


# On the way out


def test_the_values_to_load_are_those_whose_places_hold_a_claim_check():
    rows = [(7, CHECK, None, SMALL), (8, SMALL, CHECK, CHECK)]

    assert claimed_values(rows, (1, 2)) == [(7, DIGEST), (8, DIGEST)]


def test_small_and_missing_values_need_nothing_loaded():
    assert claimed_values([(7, SMALL, None), (8, b"", b"null")], (1, 2)) == []


@pytest.mark.parametrize("stored", [SMALL, b"", b"null", None])
def test_what_lies_in_the_row_is_the_value(stored: bytes | None):
    assert value_of(7, stored, {}) == stored


def test_what_a_claim_check_stands_for_is_found_among_the_payloads_of_its_task():
    payloads = {(7, DIGEST): LARGE, (8, DIGEST): b"another's"}

    assert value_of(7, CHECK, payloads) == LARGE


def test_a_claim_check_without_its_payload_is_an_error_and_not_the_value():
    with pytest.raises(KeyError):
        value_of(7, CHECK, {(8, DIGEST): LARGE})


def test_what_went_in_comes_out(outgoing: Outgoing):
    row = (7, outgoing.value(7, LARGE), outgoing.value(7, SMALL))
    payloads = {(key, digest): body for key, digest, body in outgoing.payloads}

    assert claimed_values([row], (1, 2)) == list(payloads)
    assert [value_of(7, stored, payloads) for stored in row[1:]] == [LARGE, SMALL]


# Reports


@pytest.mark.parametrize(
    ("stored", "report"),
    [
        ("{}", Report()),
        ('{"in_flight": 3}', Report(in_flight=3)),
        ('{"in_flight": 3, "of_a_later_release": {"x": [1]}}', Report(in_flight=3)),
        ('{"in_flight": "many"}', Report()),
        ('{"agents": {"bank": {"in_flight": 1}}}', Report()),
        ("null", Report()),
        ("not JSON at all", Report()),
    ],
)
def test_whatever_an_instance_of_another_release_told_of_itself_it_is_listed(stored: str, report: Report):
    row = ("one", 1, 1, "box", 7, "[]", '["scheduler"]', stored, 0, 0)

    assert SHAPE.instance_record(row).report == report
