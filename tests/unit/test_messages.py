"""The rules of messages: order, lateness, duplicates, filters, limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay.domain.bound import look_again_after
from backstay.domain.message import (
    AGEING,
    PRIORITY_LEAST,
    PRIORITY_MOST,
    MessageState,
    NewMessage,
    Queue,
    checked_limit,
    checked_priority,
    checked_properties,
    checked_queue,
    checked_reason,
    effective_priority,
    is_duplicate,
    is_lost,
    is_used_up,
    lock_token,
    matches,
    parse_token,
    placed,
    prefetch_allowed,
    rank,
    shortened_detail,
    subscription_queue,
)
from backstay.errors import InvalidId, InvalidInput, InvalidRequest

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)

seconds = st.integers(0, 100_000).map(lambda number: timedelta(seconds=number))
priorities = st.integers(PRIORITY_LEAST, PRIORITY_MOST)


def new(**fields: Any) -> NewMessage:
    return NewMessage(**{"to": "orders", "id": "m1", "body": b"1", **fields})


# Order


@given(one=seconds, other=seconds, high=priorities, low=priorities, later=seconds)
def test_the_rank_orders_by_the_effective_priority_of_any_later_instant(one, other, high, low, later):
    now = NOON + max(one, other) + later
    first = effective_priority(high, enqueued_at=NOON + one, now=now)
    second = effective_priority(low, enqueued_at=NOON + other, now=now)

    if abs(first - second) > 1e-6:
        assert (rank(NOON + one, high) < rank(NOON + other, low)) == (first > second)


def test_the_lowest_passes_the_highest_after_a_bounded_time():
    wait = (PRIORITY_MOST - PRIORITY_LEAST) * AGEING

    assert rank(NOON, PRIORITY_LEAST) < rank(NOON + wait + SECOND, PRIORITY_MOST)


# Where a message enters


def test_a_message_is_ready_behind_or_waiting():
    queue = Queue(name="orders")

    assert placed(new(), queue, NOON).state is MessageState.READY
    assert placed(new(session="s"), queue, NOON).state is MessageState.BEHIND
    later = placed(new(at=NOON + SECOND), queue, NOON)
    assert (later.state, later.visible_at, later.enqueued_at) == (
        MessageState.WAITING,
        NOON + SECOND,
        NOON + SECOND,
    )


def test_the_shorter_time_to_live_counts_from_the_time_it_can_be_received():
    queue = Queue(name="orders", ttl=10 * SECOND)

    assert placed(new(), queue, NOON).expires_at == NOON + 10 * SECOND
    assert placed(new(ttl=SECOND), queue, NOON).expires_at == NOON + SECOND
    assert placed(new(ttl=60 * SECOND), queue, NOON).expires_at == NOON + 10 * SECOND
    assert placed(new(at=NOON + SECOND), queue, NOON).expires_at == NOON + 11 * SECOND
    assert placed(new(), Queue(name="orders"), NOON).expires_at is None


def test_a_queue_of_sessions_wants_one():
    with pytest.raises(InvalidInput, match="session is missing"):
        placed(new(), Queue(name="orders", sessions=True), NOON)


# Lateness


def test_a_lock_is_lost_at_its_end_and_not_before():
    assert not is_lost(NOON, NOON - timedelta(microseconds=1))
    assert is_lost(NOON, NOON)


def test_the_last_delivery_is_the_one_that_reaches_the_limit():
    assert not is_used_up(9, 10)
    assert is_used_up(10, 10)


def test_a_duplicate_is_one_within_the_window():
    assert is_duplicate(NOON, window=SECOND, now=NOON + SECOND / 2)
    assert not is_duplicate(NOON, window=SECOND, now=NOON + SECOND)
    assert not is_duplicate(NOON, window=timedelta(0), now=NOON)


# Filters


@pytest.mark.parametrize(
    ("where", "properties", "expected"),
    [
        ({}, {}, True),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": "x"}, {"a": "X"}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": False}, {"a": 0}, False),
    ],
)
def test_every_property_that_is_asked_for_must_be_equal(where, properties, expected):
    assert matches(where, properties) is expected


# What a consumer may hold


@pytest.mark.parametrize(
    ("prefetch", "concurrency", "handling", "expected"),
    [
        (100, 4, None, 4),
        (2, 4, None, 2),
        (0, 4, SECOND, 0),
        (100, 4, SECOND, 100),
        (1_000, 4, SECOND, 240),
        (100, 1, 30 * SECOND, 2),
        (100, 1, 61 * SECOND, 0),
        (100, 1, timedelta(0), 100),
    ],
)
def test_no_more_is_held_than_a_lock_allows(prefetch, concurrency, handling, expected):
    lock = timedelta(seconds=60)

    assert prefetch_allowed(prefetch, concurrency=concurrency, lock=lock, handling=handling) == expected


# Tokens


@given(st.integers(1, 10**18 - 1), st.text("0123456789abcdef.", min_size=1))
def test_a_token_tells_its_message_and_its_secret(sequence, secret):
    assert parse_token(lock_token(sequence, secret)) == (sequence, secret)


@pytest.mark.parametrize("token", ["", ".", "7", "7.", ".x", "-7.x", "7e3.x", "\u0667.x", f"{10**18}.x"])
def test_what_is_no_token_is_none(token):
    assert parse_token(token) is None


# Limits


@pytest.mark.parametrize(
    "terms",
    [
        {"name": "with a space"},
        {"lock": timedelta(0)},
        {"lock": timedelta(days=2)},
        {"max_deliveries": 0},
        {"max_deliveries": 1_001},
        {"dedup": timedelta(days=8)},
        {"ttl": timedelta(0)},
    ],
)
def test_a_queue_out_of_bounds_is_refused_naming_what_is(terms):
    [name] = terms
    with pytest.raises((InvalidRequest, InvalidId), match=name):
        checked_queue(Queue(**{"name": "orders", **terms}))


@pytest.mark.parametrize("priority", [11, -11, 1.5, "1", True, None])
def test_a_priority_is_a_small_whole_number(priority):
    with pytest.raises(InvalidInput, match="priority"):
        checked_priority(priority)


@pytest.mark.parametrize(
    "properties",
    [
        [],
        {"": 1},
        {1: 1},
        {"a": None},
        {"a": []},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": 2**53},
        {"a": "\0"},
        {"a": "x" * 20_000},
        {f"p{number}": 1 for number in range(65)},
    ],
)
def test_properties_are_few_flat_and_small(properties):
    with pytest.raises(InvalidInput, match="properties"):
        checked_properties(properties)


@pytest.mark.parametrize("number", [0, 1_001, "1", True, 1.0])
def test_a_receive_is_bounded(number):
    with pytest.raises(InvalidRequest, match="max"):
        checked_limit(number)


@pytest.mark.parametrize("reason", ["", "x" * 201, "a\0b", None, 7])
def test_a_reason_is_one_short_text(reason):
    with pytest.raises(InvalidInput, match="reason"):
        checked_reason(reason)


def test_a_detail_is_kept_whatever_it_holds():
    assert shortened_detail("a\0b\ud800") == "a�b?"
    assert len(shortened_detail("x" * 9_999)) == 2_000


def test_a_subscription_has_a_queue_of_its_own():
    assert subscription_queue("prices", "audit") == "prices:audit"
    with pytest.raises(InvalidId):
        subscription_queue("prices", "x" * 200)


def test_a_count_is_good_for_as_long_as_it_takes_to_fill_the_room_or_to_count_again():
    second = timedelta(seconds=1)

    assert look_again_after(0, 1) == look_again_after(100_000, 100_000) == second
    assert look_again_after(0, 1_000_000) == look_again_after(1_000_000, 1_000_000) == 10 * second
    assert look_again_after(500_000, 1_000_000) == 5 * second
    # Full by what was sent since: somebody may have received it.
    assert look_again_after(500_000, 1_000_000, believed=1_000_000) == second
    assert look_again_after(500_000, 1_000_000, believed=999_999) == 5 * second
