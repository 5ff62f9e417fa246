"""What is forgotten: the oldest, behind everybody who reads, never more than asked for."""

from __future__ import annotations

import pytest

from backstay.errors import StreamFull
from backstay.testing.promises.appending import fill
from backstay.testing.promises.feed import HOUR, MANY, MINUTE, SECOND, Feed, LogPromises, body_of


class RetentionPromises(LogPromises):
    async def test_what_is_too_old_is_forgotten_and_nothing_else(self, feed: Feed) -> None:
        """EH-03: expiry only by retention."""
        await feed.declare(retention=HOUR)
        await feed.put("old", key="a")
        await feed.put("old", key="b")
        feed.clock.pass_time(HOUR - SECOND)
        assert await feed.trim() == 0
        await feed.put("young", key="a")
        feed.clock.pass_time(2 * SECOND)

        assert await feed.trim() == 2

        assert await feed.bodies() == ["young"]
        assert await feed.trim() == 0

    async def test_a_group_that_has_not_passed_an_event_keeps_it(self, feed: Feed) -> None:
        await feed.declare(retention=HOUR)
        places = [await feed.put(number, key="k") for number in range(3)]
        number = places[0].partition
        feed.clock.pass_time(2 * HOUR)

        assert await feed.trim({number: places[0].offset}) == 0
        assert await feed.trim({number: places[2].offset}) == 2

        assert [event.offset for event in await feed.read(number)] == [places[2].offset]

    async def test_a_floor_forgets_nothing_that_is_young(self, feed: Feed) -> None:
        place = await feed.put("a", key="k")

        assert await feed.trim({place.partition: place.offset + 1}) == 0

        assert await feed.bodies() == ["a"]

    async def test_a_trim_is_bounded_and_the_next_goes_on(self, feed: Feed) -> None:
        await feed.declare(retention=HOUR)
        for number in range(7):
            await feed.put(number, key="k")
        feed.clock.pass_time(2 * HOUR)

        gone = [await feed.trim(limit=3) for _ in range(4)]

        assert gone == [3, 3, 1, 0]

    async def test_the_oldest_go_first(self, feed: Feed) -> None:
        await feed.declare(retention=HOUR)
        for number in range(6):
            await feed.put(number)
            feed.clock.pass_time(SECOND)
        feed.clock.pass_time(2 * HOUR)

        assert await feed.trim(limit=2) == 2

        assert sorted(await feed.bodies()) == [2, 3, 4, 5]

    async def test_offsets_are_not_given_again(self, feed: Feed) -> None:
        """EH-01."""
        await feed.declare(retention=HOUR)
        old = await feed.put("old", key="k")
        feed.clock.pass_time(2 * HOUR)
        await feed.trim()

        new = await feed.put("new", key="k")

        assert new.partition == old.partition
        assert new.offset > old.offset
        standing = await feed.partition(new.partition)
        assert old.offset < standing.first <= new.offset < standing.end

    async def test_a_full_stream_has_room_again_once_what_was_read_is_forgotten(self, feed: Feed) -> None:
        await feed.declare(bytes_max=100_000)
        await fill(feed)
        nobody_has_read = {one.partition: one.first for one in (await feed.standing()).partitions}

        assert await feed.trim(nobody_has_read) == 0
        with pytest.raises(StreamFull):
            await feed.put("x" * 10_000)
        all_have_read = {one.partition: one.end for one in (await feed.standing()).partitions}
        gone = await feed.trim(all_have_read)

        await feed.put("x" * 10_000)
        # No more than was needed: the rest may still be read anew.
        assert 0 < gone < len(await feed.everything())

    async def test_the_size_is_that_of_what_is_there(self, feed: Feed) -> None:
        await feed.declare(retention=HOUR)
        assert (await feed.standing()).bytes == 0
        await feed.put("x" * 1_000, key="k", id="e1", headers={"a": "b"})
        small = (await feed.standing()).bytes
        feed.clock.pass_time(2 * HOUR)
        await feed.put("x" * 2_000, key="k")
        large = (await feed.standing()).bytes

        await feed.trim()

        assert 1_000 <= small < 2_000 <= large - small
        assert (await feed.standing()).bytes == large - small
        feed.clock.pass_time(2 * HOUR)
        await feed.trim()
        assert (await feed.standing()).bytes == 0

    async def test_a_longer_retention_counts_for_what_is_there(self, feed: Feed) -> None:
        await feed.declare(retention=MINUTE)
        await feed.put("a")
        await feed.declare(retention=HOUR)
        feed.clock.pass_time(2 * MINUTE)

        assert await feed.trim(limit=MANY) == 0

        assert [body_of(event) for event in await feed.everything()] == ["a"]
