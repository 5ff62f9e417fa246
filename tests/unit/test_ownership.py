"""Who ought to have what, and what to do about it."""

from __future__ import annotations

import zlib
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from backstay.domain.ownership import Claim, Member, Ownership, Patience, moves, ordinal_of, shares
from backstay.domain.stream import EventRecord, Group, GroupStanding, Unit, floors, slot_of, slowest

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
GROUP = Group("telemetry", "archive")


def member(id: str, claim: Claim | None = None, *, age: int = 0) -> Member:
    return Member(id=id, started_at=NOON - timedelta(seconds=age), claim=claim)


def unit(
    partition: int, holder: str | None = None, *, slot: int = 0, checkpoint: int | None = None
) -> GroupStanding:
    return GroupStanding(
        group=GROUP,
        partition=partition,
        slot=slot,
        checkpoint=checkpoint,
        holder=holder,
        epoch=1,
        updated_at=NOON,
    )


def seen(members: str, holders: str) -> Ownership:
    """Members by their letters, and of each unit the holder's letter; a dot has none."""
    units = [unit(number, None if one == "." else one) for number, one in enumerate(holders)]
    return Ownership([member(one) for one in members], units)


def told(seen: Ownership) -> str:
    """Whose each unit ought to be."""
    shared = shares(seen)
    return "".join(shared.get(one.unit, ".") for one in seen.units)


@pytest.mark.parametrize(
    ("members", "holders", "ought"),
    [
        pytest.param("a", "....", "aaaa", id="one has all"),
        pytest.param("ab", "....", "aabb", id="two have half each"),
        pytest.param("abc", ".......", "aaabbcc", id="the odd one is the first's"),
        pytest.param("ab", "aaaa", "aabb", id="who has too much keeps what it may"),
        pytest.param("ab", "aabbb", "aabbb", id="who has one more keeps it"),
        pytest.param("ab", "xxaa", "bbaa", id="what a stranger has is for who has less"),
        pytest.param("abc", "aabb", "aabc", id="only what must moves"),
        pytest.param("abc", "aa.b", "aacb", id="what is free goes to who has none"),
        pytest.param("abcd", "ab", "ab", id="some have none"),
        pytest.param("", "ab", "..", id="nobody has anything"),
    ],
)
def test_units_are_shared_evenly_and_moved_as_little_as_possible(members: str, holders: str, ought: str):
    assert told(seen(members, holders)) == ought


def test_who_gives_up_is_not_asked_for_more_while_another_is_slower():
    """Of two with too much, the first has let go; the second still holds all: both shares are as before."""
    assert told(seen("abc", "aaaaaaaabbbbbbbb")).count("a") == 6
    assert told(seen("abc", "aaaaaa..bbbbbbbb")).count("a") == 6
    assert moves(seen("abc", "aaaaaa..bbbbbbbb"), "a").give_up == []


def test_what_is_ours_and_free_is_taken_what_others_have_is_awaited():
    found = moves(seen("ab", "aaa."), "b")

    assert [one.unit for one in found.take] == [Unit(3)]
    assert [one.unit for one in found.awaited] == [Unit(2)]
    assert moves(seen("ab", "aaa."), "a").give_up == [Unit(2)]


def test_where_everybody_has_its_share_there_is_nothing_to_do():
    for me in "abc":
        found = moves(seen("abc", "abcabca"), me)
        assert (found.take, found.give_up, found.awaited) == ([], [], [])


# By number


def claimed(*members: Member, holders: str) -> Ownership:
    return Ownership(members, seen("", holders).units)


def test_a_claim_is_every_unit_whose_number_leaves_the_ordinal():
    three = [member(name, Claim(number, 3)) for number, name in enumerate("abc")]

    assert told(claimed(*three, holders=".......")) == "abcabca"
    assert told(claimed(three[0], three[2], holders=".......")) == "a.ca.ca"


def test_of_two_who_claim_the_same_the_one_that_started_last_has_it():
    """A rolling update from two members to three: the new ones come one by one."""
    old = [member(name, Claim(number, 2), age=60) for number, name in enumerate("ab")]
    new = member("c", Claim(2, 3))

    assert told(claimed(*old, new, holders="......")) == "abcbac"


def test_what_is_not_claimed_is_shared_evenly_by_those_who_claim_nothing():
    found = Counter(told(claimed(member("a", Claim(0, 2)), member("b"), member("c"), holders="........")))
    assert found == {"a": 4, "b": 2, "c": 2}


def test_who_takes_the_place_of_another_does_not_wait_for_it():
    before, now = member("a", Claim(0, 2), age=60), member("b", Claim(0, 2))

    found = moves(claimed(before, now, holders="a.a."), "b")

    assert [one.unit for one in found.take] == [Unit(0), Unit(2)]
    assert moves(claimed(before, now, holders="a.a."), "a").give_up == [Unit(0), Unit(2)]


def test_another_that_claims_too_much_is_waited_for():
    other, me = member("a", Claim(0, 1), age=60), member("b", Claim(1, 2))

    assert [one.unit for one in moves(claimed(other, me, holders="aaaa"), "b").awaited] == [Unit(1), Unit(3)]


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [("readers-0", 0), ("readers-17", 17), ("a-b-3", 3), ("readers", None), ("readers-x", None), ("", None)],
)
def test_a_pod_of_a_stateful_set_is_numbered_by_its_name(name: str, ordinal: int | None):
    assert ordinal_of(name) == ordinal


# Patience


def test_patience_ends_for_one_unit_at_a_time_of_the_holder_that_has_most():
    patience, group = Patience(10), seen("abc", "aaaabbb")
    awaited = [group.units[6], group.units[2], group.units[3]]

    assert patience.ended(awaited, seen=group, now=100) == []
    assert patience.ended(awaited, seen=group, now=109) == []
    assert [one.unit for one in patience.ended(awaited, seen=group, now=110)] == [Unit(2)]


def test_patience_begins_anew_when_a_unit_changed_hands_or_was_not_awaited_meanwhile():
    patience, group = Patience(10), seen("ab", "aa")
    [_, one] = group.units
    patience.ended([one], seen=group, now=0)
    patience.ended([], seen=group, now=9)

    assert patience.ended([one], seen=group, now=10) == []


# Slots


def event(offset: int, key: str | None = None, id: str | None = None) -> EventRecord:
    return EventRecord(partition=0, offset=offset, body=b"1", key=key, id=id, headers=None, enqueued_at=NOON)


def test_events_of_a_key_have_one_reader_and_others_go_by_their_id_or_offset():
    assert len({slot_of(event(offset, key="a", id=str(offset)), 4) for offset in range(50)}) == 1
    assert len({slot_of(event(offset, id="a"), 4) for offset in range(50)}) == 1
    assert [slot_of(event(offset), 4) for offset in range(6)] == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("partitions", [2, 3, 4, 8, 32])
@pytest.mark.parametrize("readers", [2, 3, 4, 8])
def test_the_keys_of_one_partition_are_spread_over_its_readers(partitions: int, readers: int):
    keys = [f"device-{number}" for number in range(20_000)]
    here = [key for key in keys if zlib.crc32(key.encode()) % partitions == 1]

    found = Counter(slot_of(event(0, key), readers) for key in here)

    even = len(here) / readers
    assert len(found) == readers
    assert max(abs(number - even) for number in found.values()) < 0.3 * even


def test_a_partition_is_as_far_as_the_slowest_of_its_readers():
    standings = [
        unit(0, slot=0, checkpoint=9),
        unit(0, slot=1, checkpoint=4),
        unit(1, slot=0, checkpoint=3),
        unit(1, slot=1),
    ]

    assert floors(standings) == {0: 4, 1: 0}
    assert [(one.unit, one.checkpoint) for one in slowest(standings)] == [(Unit(0, 1), 4), (Unit(1, 1), None)]
