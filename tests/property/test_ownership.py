"""Whoever comes, goes, dies or dawdles: soon everybody has its share, and then nothing moves any more."""

from __future__ import annotations

import os
from random import Random
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from backstay.domain.ownership import Claim
from backstay.domain.stream import Unit
from tests.property.sharing import HANDING_OVER, LEASE, PATIENCE, PERIOD, World

FULL = os.environ.get("BACKSTAY_TEST_CHAOS") == "full"
EXAMPLES = 1_000 if FULL else 200

#: Of a member that is slow in any way, or sees what was, or whose clock is wrong.
characters = st.fixed_dictionaries(
    {
        "period": st.integers(1, PERIOD),
        "handing_over": st.integers(0, HANDING_OVER),
        "stuck": st.booleans(),
        "outdated": st.booleans(),
        "pace": st.sampled_from([0.8, 1.0, 1.3]),
        "ahead": st.sampled_from([-1e6, 0.0, 1e6]),
    }
)
stories = st.lists(
    st.one_of(
        st.tuples(st.just("join"), characters),
        st.tuples(st.just("kill"), st.none()),
        st.tuples(st.just("stop"), st.none()),
        st.tuples(st.just("pause"), st.integers(1, 2 * LEASE)),
        st.tuples(st.just("turns"), st.integers(1, 8)),
    ),
    max_size=20,
)
units = st.builds(
    lambda partitions, readers: [
        Unit(partition, slot) for partition in range(partitions) for slot in range(readers)
    ],
    st.integers(1, 12),
    st.integers(1, 3),
)

QUIET_ROUNDS = 25


def rounds_to_settle(world: World) -> int:
    """As many as it takes at the worst: everybody stuck, and one unit at a time taken away from them.

    Until the dead are known; until everybody's patience has ended, by the slowest clock; then one unit for
    each look of a member, each seen one look late.
    """
    looks = 2 + len(world.rows)
    return LEASE + 2 * LEASE + int((PATIENCE + HANDING_OVER) / 0.8) + 2 * PERIOD * looks


@settings(max_examples=EXAMPLES, deadline=None)
@given(units, stories, characters, st.integers(0, 10_000))
def test_soon_everybody_has_its_share_and_then_nothing_moves(
    units: list[Unit], story: list[tuple[str, Any]], last: dict[str, Any], seed: int
):
    world = World(units, Random(seed))
    for what, details in story:
        if what == "turns":
            for _ in range(details):
                world.turn()
        elif what == "join":
            world.join(**details)
        elif what == "pause":
            world.pause(details)
        else:
            getattr(world, what)()
    world.join(**last)

    for _ in range(rounds_to_settle(world)):
        world.turn()

    loads = world.loads()
    assert loads.total() == len(units)
    assert max(loads.values()) - min(loads.values()) <= 1
    assert [world.turn() for _ in range(QUIET_ROUNDS)] == [0] * QUIET_ROUNDS
    event(f"{len(loads)} members, {'some' if world.refused else 'no'} writes refused")


@settings(max_examples=EXAMPLES, deadline=None)
@given(units, st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 10_000))
def test_members_with_a_number_have_the_share_of_their_number_however_often_that_changes(
    units: list[Unit], sizes: list[int], seed: int
):
    """One by one they are replaced by others that know of another number of members."""
    world = World(units, Random(seed))
    for size in sizes:
        for reader in [one for one in world.living() if one.member.claim.ordinal >= size]:  # type: ignore[union-attr]
            reader.live = False
        for ordinal in range(size):
            for reader in world.living():
                if reader.member.claim == Claim(ordinal, reader.member.claim.members):  # type: ignore[union-attr]
                    reader.live = False
            world.join(claim=Claim(ordinal, size))
            world.turn()

    for _ in range(rounds_to_settle(world)):
        world.turn()

    claims = {one.id: one.member.claim for one in world.living()}
    for number, (unit, row) in enumerate(sorted(world.rows.items())):
        assert row.holder is not None, unit
        claim = claims[row.holder]
        assert claim is not None
        assert claim.covers(number)
    assert [world.turn() for _ in range(QUIET_ROUNDS)] == [0] * QUIET_ROUNDS


@settings(max_examples=EXAMPLES, deadline=None)
@given(units, st.integers(1, 6), st.integers(0, 10_000))
def test_who_joins_or_leaves_moves_no_more_than_it_must(units: list[Unit], members: int, seed: int):
    world = World(units, Random(seed))
    for number in range(members):
        world.join(handing_over=number % HANDING_OVER)
    for _ in range(rounds_to_settle(world)):
        world.turn()

    world.join(handing_over=HANDING_OVER)
    moved = sum(world.turn() for _ in range(rounds_to_settle(world)))

    assert moved == len(units) // (members + 1)
    world.stop()
    left = len(units) - world.loads().total()
    assert sum(world.turn() for _ in range(rounds_to_settle(world))) == left
    assert world.refused == 0
