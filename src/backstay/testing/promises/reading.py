"""What a log holds is read as often as anybody likes, from wherever they like, and nobody misses a thing."""

from __future__ import annotations

import asyncio

import pytest

from backstay.errors import OffsetAhead, UnknownStream
from backstay.messaging.stream import Log
from backstay.testing.promises.feed import MANY, MEGABYTE, SECOND, Feed, LogPromises, body_of

PATIENCE_SECONDS = 10


class ReadingPromises(LogPromises):
    async def test_reading_removes_nothing(self, feed: Feed) -> None:
        """EH-03."""
        place = await feed.put("a", key="k")

        assert await feed.read(place.partition) == await feed.read(place.partition)
        assert [body_of(event) for event in await feed.read(place.partition)] == ["a"]

    async def test_one_reads_on_from_where_the_last_read_ended(self, feed: Feed) -> None:
        """EH-10: after a crash exactly at the checkpoint."""
        [first, *_] = [await feed.put(number, key="k") for number in range(5)]
        start, seen = first.offset, []

        for _ in range(3):
            found = await feed.log.read("rides", first.partition, start=start, limit=2, bytes_max=MEGABYTE)
            seen.append([body_of(event) for event in found.events])
            start = found.next

        assert seen == [[0, 1], [2, 3], [4]]
        await feed.put("new", key="k")
        assert [body_of(event) for event in await feed.read(first.partition, start=start)] == ["new"]

    async def test_an_offset_is_read_from_inclusively(self, feed: Feed) -> None:
        """EH-11."""
        places = [await feed.put(number, key="k") for number in range(3)]

        events = await feed.read(places[0].partition, start=places[1].offset)

        assert [event.offset for event in events] == [places[1].offset, places[2].offset]

    async def test_a_read_is_bounded_by_bytes_but_always_gives_one(self, feed: Feed) -> None:
        place = await feed.put("x" * 1_000, key="k")
        for _ in range(4):
            await feed.put("x" * 1_000, key="k")

        assert len(await feed.read(place.partition, bytes_max=1)) == 1
        assert len(await feed.read(place.partition, bytes_max=2_500)) == 2
        assert len(await feed.read(place.partition, bytes_max=MEGABYTE)) == 5

    async def test_the_end_of_a_partition_is_an_empty_slice(self, feed: Feed) -> None:
        place = await feed.put("a", key="k")
        end = (await feed.partition(place.partition)).end

        found = await feed.log.read("rides", place.partition, start=end, limit=MANY, bytes_max=MEGABYTE)

        assert (found.events, found.next) == ([], end)
        assert end > place.offset

    async def test_a_partition_without_events_begins_where_it_ends(self, feed: Feed) -> None:
        standing = await feed.standing()

        assert all(one.first == one.end and one.bytes == 0 for one in standing.partitions)
        assert await feed.everything() == []

    async def test_what_was_forgotten_is_passed_over(self, feed: Feed) -> None:
        """IR-5: a position older than retention goes on at the first event there is."""
        await feed.declare(retention=SECOND)
        place = await feed.put("old", key="k")
        feed.clock.pass_time(2 * SECOND)
        await feed.put("young", key="k")
        assert await feed.trim() == 1

        found = await feed.log.read(
            "rides", place.partition, start=place.offset, limit=MANY, bytes_max=MEGABYTE
        )

        assert [body_of(event) for event in found.events] == ["young"]
        assert found.next == found.events[0].offset + 1

    async def test_where_everything_was_forgotten_one_reads_on_from_the_end(self, feed: Feed) -> None:
        await feed.declare(retention=SECOND)
        place = await feed.put("old", key="k")
        feed.clock.pass_time(2 * SECOND)
        await feed.trim()
        end = (await feed.partition(place.partition)).end

        found = await feed.log.read(
            "rides", place.partition, start=place.offset, limit=MANY, bytes_max=MEGABYTE
        )

        assert (found.events, found.next) == ([], end)
        assert end > place.offset

    async def test_a_position_beyond_the_end_is_of_another_log(self, feed: Feed) -> None:
        """IR-5."""
        place = await feed.put("a", key="k")
        end = (await feed.partition(place.partition)).end

        with pytest.raises(OffsetAhead, match=f"offset {end + 1} of stream 'rides'"):
            await feed.read(place.partition, start=end + 1)

    @pytest.mark.parametrize("partition", [-1, 4])
    async def test_a_partition_that_a_stream_does_not_have_is_named(self, feed: Feed, partition: int) -> None:
        with pytest.raises(UnknownStream, match=f"'rides' with a partition {partition}"):
            await feed.log.read("rides", partition, start=0, limit=1, bytes_max=1)

    async def test_the_oldest_event_from_an_offset_on_says_how_long_it_has_waited(self, feed: Feed) -> None:
        """EH-14."""
        first = await feed.put("old", key="k")
        began = feed.clock.now()
        feed.clock.pass_time(SECOND)
        second = await feed.put("young", key="k")
        number = first.partition
        end = (await feed.partition(number)).end
        others = {one: 0 for one in range(4) if one != number}

        from_the_first = await feed.log.oldest("rides", {number: first.offset, **others})
        from_the_second = await feed.log.oldest("rides", {number: second.offset})

        assert {one: body_of(event) for one, event in from_the_first.items()} == {number: "old"}
        assert from_the_first[number].enqueued_at == began
        assert body_of(from_the_second[number]) == "young"
        assert await feed.log.oldest("rides", {number: end}) == {}

    async def test_the_oldest_event_is_the_first_there_is_when_its_forerunners_are_forgotten(
        self, feed: Feed
    ) -> None:
        await feed.declare(retention=SECOND)
        place = await feed.put("old", key="k")
        feed.clock.pass_time(2 * SECOND)
        await feed.put("young", key="k")
        await feed.trim()

        found = await feed.log.oldest("rides", {place.partition: place.offset})

        assert body_of(found[place.partition]) == "young"

    # Being called

    async def test_who_listens_is_called_with_the_streams_that_were_appended_to(self, feed: Feed) -> None:
        await feed.declare("other")
        ear = Ear(feed.log)

        await feed.put("a", to="other")

        await ear.heard("other")
        ear.stop()

    async def test_who_no_longer_listens_is_called_no_more(self, feed: Feed) -> None:
        deaf, ear = Ear(feed.log), Ear(feed.log)
        deaf.stop()

        await feed.put("a")
        await ear.heard("rides")

        assert deaf.names == set()
        ear.stop()


class Ear:
    """The streams that a listener was called for."""

    def __init__(self, log: Log) -> None:
        self.names: set[str | None] = set()
        self._called = asyncio.Event()
        self.stop = log.listen(self._hear)

    async def heard(self, name: str) -> None:
        """Come back once the stream was named, or any of them was."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.names.isdisjoint({name, None}):
                self._called.clear()
                await self._called.wait()

    def _hear(self, names: frozenset[str] | None) -> None:
        self.names.update({None} if names is None else names)
        self._called.set()
