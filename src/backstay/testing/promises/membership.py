"""Who reads for a group, and how units change hands: by comparing epochs."""

from __future__ import annotations

import asyncio

import pytest

from backstay.domain.ownership import Claim
from backstay.domain.stream import Unit
from backstay.errors import LeaseLost, ReadersDiffer
from backstay.store.base import Changes, Store
from backstay.store.groups import Advanced
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import LEASE, SECOND, Holder
from backstay.testing.promises.readers import Reader, ReadingPromises


async def members(reader: Reader) -> list[str]:
    return [one.id for one in (await reader.look()).members]


async def units(reader: Reader) -> dict[Unit, int | None]:
    """Of each unit its checkpoint."""
    return {one.unit: one.checkpoint for one in (await reader.look()).units}


class MembershipPromises(ReadingPromises):
    # Who reads

    async def test_who_joins_is_a_member_whether_it_holds_anything_or_not(
        self, reader: Reader, rival: Reader
    ) -> None:
        await reader.join(2)
        await reader.hold(0, 1)

        await rival.join(2)

        seen = await rival.look()
        assert [one.id for one in seen.members] == ["alice", "bob"]
        assert [(one.unit, one.holder, one.epoch) for one in seen.units] == [
            (Unit(0), "alice", 1),
            (Unit(1), "alice", 1),
        ]

    async def test_a_group_that_nobody_joined_has_neither_members_nor_units(self, reader: Reader) -> None:
        seen = await reader.look()

        assert (seen.members, seen.units) == ([], [])

    async def test_a_member_says_which_share_it_claims(self, reader: Reader, rival: Reader) -> None:
        await reader.join(2, claim=Claim(1, 3))
        await rival.join(2)

        assert [one.claim for one in (await rival.look()).members] == [Claim(1, 3), None]

    async def test_joining_again_changes_nothing_but_the_claim(self, reader: Reader) -> None:
        await reader.join(2, claim=Claim(0, 2))
        held = await reader.hold(0)
        await reader.advance(held[0], to=3)

        await reader.join(2, claim=Claim(0, 3))

        assert await units(reader) == {Unit(0): 3, Unit(1): None}
        assert [one.claim for one in (await reader.look()).members] == [Claim(0, 3)]
        assert [one.epoch for one in await reader.hold()] == [1]

    async def test_who_leaves_keeps_what_it_holds_until_it_lets_go(
        self, reader: Reader, rival: Reader
    ) -> None:
        held = await reader.held()
        await rival.join(1)

        await reader.leave()

        assert await members(rival) == ["bob"]
        assert [one.holder for one in (await rival.look()).units] == ["alice"]
        assert await reader.advance(held, to=1) == Advanced()

    async def test_who_stopped_is_no_member(
        self, store: Store, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        await reader.join(1)
        await rival.join(1)

        await store.retire(reader.owner, now=clock.now())

        assert await members(rival) == ["bob"]

    async def test_who_gave_no_sign_of_life_for_a_lease_is_no_member_until_it_does(
        self, store: Store, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        await reader.hold(0)
        await rival.join(1)

        clock.pass_time(LEASE + SECOND)
        assert await members(rival) == ["bob"]
        assert [one.holder for one in (await rival.look()).units] == [None]

        await store.beat(reader.owner, now=clock.now())
        assert await members(rival) == ["alice", "bob"]
        assert [one.holder for one in (await rival.look()).units] == ["alice"]

    async def test_everybody_sees_itself(self, clock: ManualClock, reader: Reader) -> None:
        await reader.hold(0)

        clock.pass_time(LEASE + SECOND)

        assert await members(reader) == ["alice"]
        assert [one.holder for one in (await reader.look()).units] == ["alice"]

    async def test_who_was_declared_dead_joins_nothing(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        await store.retire(reader.owner, now=clock.now())

        with pytest.raises(LeaseLost):
            await reader.join(1)

    async def test_whoever_listens_hears_who_joins_takes_lets_go_and_leaves(
        self, store: Store, reader: Reader
    ) -> None:
        heard: list[Changes] = []
        stop = store.listen(heard.append)

        async def tells(change: object) -> bool:
            heard.clear()
            await change  # type: ignore[misc]
            return any(one.ownership for one in heard)

        assert await tells(reader.join(1))
        assert await tells(reader.take(*await reader.free(0)))
        assert await tells(reader.release(*await reader.hold()))
        assert await tells(reader.leave())
        stop()

    # How units change hands

    async def test_a_unit_is_taken_from_a_holder_that_lives_which_is_refused_from_then_on(
        self, reader: Reader, rival: Reader
    ) -> None:
        held = await reader.held()
        await reader.advance(held, to=4)
        await rival.join(1)
        [seen] = (await rival.look()).units

        [taken] = await rival.take(seen)

        assert (taken.unit, taken.epoch, taken.checkpoint) == (Unit(0), 2, 4)
        assert isinstance(await reader.advance(held, to=9), LeaseLost)
        assert await rival.advance(taken, to=5) == Advanced()
        assert await reader.hold() == []

    async def test_what_has_changed_hands_since_it_was_seen_is_not_taken(
        self, store: Store, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        third = Reader(store, clock, (await Holder.joined(store, clock, "carol")).owner)
        await reader.held()
        await rival.join(1)
        [seen] = (await rival.look()).units
        await third.join(1)
        [held] = await third.take(*(await third.look()).units)

        assert await rival.take(seen) == []

        assert await third.hold() == [held]

    async def test_what_was_let_go_since_it_was_seen_is_taken_from_where_it_was_left(
        self, reader: Reader, rival: Reader
    ) -> None:
        held = await reader.held()
        await rival.join(1)
        [seen] = (await rival.look()).units
        await reader.advance(held, to=7)
        await reader.release(held)

        [taken] = await rival.take(seen)

        assert taken.checkpoint == 7

    async def test_of_many_who_take_the_same_at_once_one_gets_it(self, reader: Reader, rival: Reader) -> None:
        await reader.join(8)
        await rival.join(8)
        seen = (await reader.look()).units

        hers, his = await asyncio.gather(reader.take(*seen), rival.take(*seen))

        assert sorted([one.unit for one in (*hers, *his)]) == sorted({one.unit for one in (*hers, *his)})
        left = [one for one in (await reader.look()).units if one.holder is None]
        assert len(hers) + len(his) + len(left) == 8

    async def test_who_was_declared_dead_takes_nothing(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        free = await reader.free(0)
        await store.retire(reader.owner, now=clock.now())

        with pytest.raises(LeaseLost):
            await reader.take(*free)

    async def test_nothing_at_all_is_taken_at_once(self, reader: Reader) -> None:
        assert await reader.take() == []

    # Several readers of a partition

    async def test_each_slot_has_a_checkpoint_of_its_own(
        self, store: Store, reader: Reader, rival: Reader
    ) -> None:
        await reader.join(1, readers=2)
        await rival.join(1, readers=2)
        first, second = (await reader.look()).units
        [hers] = await reader.take(first)
        [his] = await rival.take(second)

        await reader.advance(hers, to=9)
        await rival.advance(his, to=4)

        standings = await store.groups.standings("telemetry")
        assert [(one.unit, one.checkpoint, one.holder) for one in standings] == [
            (Unit(0, 0), 9, "alice"),
            (Unit(0, 1), 4, "bob"),
        ]

    async def test_the_number_of_readers_stays_while_others_read(
        self, store: Store, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        await reader.join(2, readers=2)

        with pytest.raises(ReadersDiffer, match="readers=2 by alice"):
            await rival.join(2, readers=3)
        assert await members(rival) == ["alice"]
        assert len(await units(rival)) == 4

        # Who has left still reads until it has let go.
        held = await reader.hold(0)
        await reader.leave()
        with pytest.raises(ReadersDiffer):
            await rival.join(2, readers=3)
        await reader.release(*held)
        await rival.join(2, readers=3)

        assert len(await units(rival)) == 6

    async def test_other_readers_begin_where_the_slowest_of_the_partition_was(
        self, store: Store, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        await reader.join(3, readers=2)
        held = {one.unit: one for one in await reader.hold(0, 1, 2)}
        for unit, to in {Unit(0, 0): 9, Unit(0, 1): 4, Unit(1, 0): 7}.items():
            await reader.advance(held[unit], to=to)
        await store.retire(reader.owner, now=clock.now())

        await rival.join(3)

        assert await units(rival) == {Unit(0): 4, Unit(1): None, Unit(2): None}
        assert isinstance(await reader.advance(held[Unit(0)], to=20), LeaseLost)
        assert [(one.epoch, one.checkpoint) for one in await rival.hold(0)] == [(3, 4)]

    async def test_who_comes_back_with_another_number_of_readers_is_no_member_any_more(
        self, store: Store, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        await reader.join(1, readers=2)
        clock.pass_time(LEASE + SECOND)
        await store.beat(rival.owner, now=clock.now())
        await rival.join(1)

        await store.beat(reader.owner, now=clock.now())

        assert await members(reader) == ["bob"]
        with pytest.raises(ReadersDiffer, match="readers=1 by bob"):
            await reader.join(1, readers=2)
