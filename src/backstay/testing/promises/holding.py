"""A partition is read for a group by one instance at a time."""

from __future__ import annotations

import asyncio

import pytest

from backstay.domain.lease import Leader
from backstay.domain.stream import Group, Holding
from backstay.errors import LeaseLost, OtherLog
from backstay.store.base import Store
from backstay.store.groups import Advanced
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import LEASE, SECOND
from backstay.testing.promises.readers import ARCHIVE, Reader, ReadingPromises


def numbers(holdings: list[Holding]) -> list[int]:
    return [one.partition for one in holdings]


class HoldingPromises(ReadingPromises):
    async def test_free_partitions_are_held_by_whoever_asks_first(self, reader: Reader) -> None:
        held = await reader.hold(2, 0, 1)

        assert held == [
            Holding(group=ARCHIVE, partition=number, epoch=1, checkpoint=None) for number in range(3)
        ]

    async def test_a_partition_that_is_held_is_not_given_to_another(
        self, reader: Reader, rival: Reader
    ) -> None:
        await reader.hold(0, 1)

        assert numbers(await rival.hold(0, 1, 2)) == [2]
        assert numbers(await reader.hold(0, 1, 2)) == [0, 1]

    async def test_who_asks_again_gets_all_that_it_holds_under_the_same_epoch(self, reader: Reader) -> None:
        before = await reader.hold(0, 1)

        after = await reader.hold(2)

        assert [one for one in after if one.partition < 2] == before
        assert numbers(after) == [0, 1, 2]

    async def test_who_wants_nothing_more_hears_what_it_holds(self, reader: Reader) -> None:
        held = await reader.hold(0, 1)

        assert await reader.hold() == held

    async def test_a_group_that_got_somewhere_in_one_log_does_not_go_on_in_another(
        self, reader: Reader, rival: Reader
    ) -> None:
        """IR-5: the same offset would be another event."""
        held = await reader.held()
        await reader.advance(held, to=7)
        await reader.release(held)

        with pytest.raises(OtherLog, match="archive"):
            await rival.hold(0, 1, log="another log")

        assert numbers(await rival.hold(0, 1)) == [0, 1]

    async def test_a_group_that_got_nowhere_may_begin_in_another_log(self, reader: Reader) -> None:
        held = await reader.held()
        await reader.release(held)

        [again] = await reader.hold(0, log="another log")

        await reader.advance(again, to=7)
        with pytest.raises(OtherLog):
            await reader.hold(0)

    async def test_every_group_reads_for_itself(
        self, store: Store, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        await reader.hold(0, 1)
        groups = [Group("telemetry", "scheduler"), Group("orders", "archive")]
        others = [Reader(store, clock, rival.owner, group) for group in groups]

        for other in others:
            assert numbers(await other.hold(0, 1)) == [0, 1]

    async def test_of_many_who_ask_at_once_each_partition_goes_to_one(
        self, reader: Reader, rival: Reader
    ) -> None:
        wanted = range(16)

        rounds = [await asyncio.gather(reader.hold(*wanted), rival.hold(*wanted)) for _ in range(2)]

        hers, his = (numbers(held) for held in rounds[-1])
        assert sorted(hers + his) == [*wanted]

    # How they become free

    async def test_what_is_released_is_free_at_once_under_the_next_epoch(
        self, reader: Reader, rival: Reader
    ) -> None:
        held = await reader.held()
        await reader.advance(held, to=7)

        await reader.release(held)

        assert await rival.hold(0) == [Holding(group=ARCHIVE, partition=0, epoch=2, checkpoint=7)]

    async def test_who_releases_may_hold_it_again(self, reader: Reader) -> None:
        held = await reader.held()
        await reader.release(held)

        again = await reader.held()

        assert again.epoch == held.epoch + 1
        assert isinstance(await reader.advance(held, to=1), LeaseLost)
        assert await reader.advance(again, to=1) == Advanced()

    async def test_what_was_lost_is_not_released(
        self, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        lost = await reader.held()
        clock.pass_time(LEASE + SECOND)
        [held] = await rival.hold(0)

        await reader.release(lost)

        assert await rival.hold() == [held]

    async def test_what_an_instance_held_that_stopped_is_free_at_once(
        self, store: Store, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        await reader.hold(0, 1)

        await store.retire(reader.owner, now=clock.now())

        assert numbers(await rival.hold(0, 1)) == [0, 1]

    async def test_what_an_instance_held_that_was_declared_dead_is_free_at_once(
        self, store: Store, clock: ManualClock, leader: Leader, reader: Reader, rival: Reader
    ) -> None:
        await reader.hold(0)
        clock.pass_time(LEASE + SECOND)
        await store.beat(rival.owner, now=clock.now())
        await store.supervision.bury(leader, lease=LEASE, now=clock.now())

        assert numbers(await rival.hold(0, lease=LEASE * 1_000)) == [0]

    async def test_who_gave_no_sign_of_life_for_a_lease_is_displaced(
        self, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        await reader.hold(0)

        clock.pass_time(LEASE)
        assert await rival.hold(0) == []
        clock.pass_time(SECOND)
        assert numbers(await rival.hold(0)) == [0]

    async def test_who_gives_signs_of_life_keeps_what_it_holds(
        self, store: Store, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        await reader.hold(0)
        clock.pass_time(LEASE + SECOND)

        await store.beat(reader.owner, now=clock.now())

        assert await rival.hold(0) == []

    async def test_nobody_displaces_itself(self, clock: ManualClock, reader: Reader) -> None:
        held = await reader.hold(0)

        clock.pass_time(LEASE + SECOND)

        assert await reader.hold(0) == held

    async def test_who_was_declared_dead_holds_nothing_any_more(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        await store.retire(reader.owner, now=clock.now())

        with pytest.raises(LeaseLost):
            await reader.hold(0)

    # How they stand

    async def test_standings_tell_how_far_each_group_is_and_who_reads(
        self, store: Store, clock: ManualClock, reader: Reader, rival: Reader
    ) -> None:
        first, _ = await reader.hold(1, 2)
        await Reader(store, clock, rival.owner, Group("telemetry", "Alarm")).hold(0)
        await Reader(store, clock, rival.owner, Group("orders", "archive")).hold(0)
        clock.pass_time(SECOND)
        await reader.advance(first, to=7)

        standings = await store.groups.standings("telemetry")

        assert [(one.group.name, one.partition, one.checkpoint, one.holder) for one in standings] == [
            ("Alarm", 0, None, "bob"),
            ("archive", 0, None, None),
            ("archive", 1, 7, "alice"),
            ("archive", 2, None, "alice"),
        ]
        assert [clock.now() - one.updated_at for one in standings] == [SECOND, SECOND, 0 * SECOND, SECOND]
        assert await store.groups.standings("unknown") == []

    async def test_who_has_ended_reads_no_more(
        self, store: Store, clock: ManualClock, reader: Reader
    ) -> None:
        await reader.hold(0)

        await store.retire(reader.owner, now=clock.now())

        [standing] = await store.groups.standings("telemetry")
        assert standing.holder is None
