"""What was appended is there, once, in the partition of its key and in its order."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from backstay.domain.stream import Appended, NewEvent, Stream
from backstay.errors import Conflict, EventConflict, StreamFull, UnknownStream
from backstay.messaging.stream import Log
from backstay.testing.clock import ManualClock
from backstay.testing.promises.feed import MINUTE, SECOND, Feed, LogPromises, body_of

WINDOW = timedelta(minutes=10)


class AppendingPromises(LogPromises):
    # Streams

    async def test_a_stream_is_new_once(self, log: Log, clock: ManualClock) -> None:
        stream = Stream(name="rides", partitions=3, retention=MINUTE, bytes_max=1_000_000, dedup=SECOND)

        assert await log.declare(stream, now=clock.now())
        assert not await log.declare(stream, now=clock.now())

        assert await log.stream("rides") == stream

    async def test_other_terms_count_anew(self, feed: Feed) -> None:
        await feed.put("a", key="k")

        await feed.declare(retention=MINUTE, bytes_max=2_000_000, dedup=SECOND)

        assert await feed.log.stream("rides") == Stream(
            name="rides", partitions=4, retention=MINUTE, bytes_max=2_000_000, dedup=SECOND
        )
        assert await feed.bodies() == ["a"]

    async def test_the_number_of_partitions_stays(self, feed: Feed) -> None:
        """EH-01."""
        with pytest.raises(Conflict, match="partitions"):
            await feed.declare(partitions=5, retention=MINUTE)

        kept = await feed.log.stream("rides")
        assert (kept.partitions, kept.retention) == (4, Stream(name="rides").retention)

    async def test_a_stream_is_itself_and_no_other(self, feed: Feed, clock: ManualClock) -> None:
        await feed.log.declare(Stream(name="walks", partitions=4), now=clock.now())

        identity = await feed.log.identity("rides")

        assert identity
        assert await feed.log.identity("walks") != identity
        await feed.declare(retention=MINUTE)
        assert await feed.log.identity("rides") == identity

    async def test_a_stream_that_is_not_there_is_named(self, log: Log, clock: ManualClock) -> None:
        feed = Feed(log, clock)

        with pytest.raises(UnknownStream, match="'rides'"):
            await log.stream("rides")
        with pytest.raises(UnknownStream, match="'rides'"):
            await log.identity("rides")
        with pytest.raises(UnknownStream, match="'rides'"):
            await feed.put("a")
        with pytest.raises(UnknownStream, match="'rides'"):
            await log.read("rides", 0, start=0, limit=1, bytes_max=1)
        assert await log.standings(limit=10) == []

    async def test_streams_are_listed_in_the_order_of_their_names_a_page_at_a_time(self, feed: Feed) -> None:
        for name in ("c", "a", "b"):
            await feed.declare(name, partitions=2)

        first = await feed.log.standings(limit=2)
        rest = await feed.log.standings(after=first[-1].stream.name, limit=10)
        named = await feed.log.standings(names=["c", "nobody", "a"], limit=10)

        assert [one.stream.name for one in first] == ["a", "b"]
        assert [one.stream.name for one in rest] == ["c", "rides"]
        assert [one.stream.name for one in named] == ["a", "c"]
        assert [part.partition for part in rest[-1].partitions] == [0, 1, 2, 3]

    # Order

    async def test_events_of_one_key_are_in_one_partition_in_their_order(self, feed: Feed) -> None:
        """EH-01, EH-02."""
        first = await feed.put(1, key="drone-7")
        [second, third] = await feed.put_all(feed.new(2, key="drone-7"), feed.new(3, key="drone-7"))

        assert first.partition == second.partition == third.partition
        assert first.offset < second.offset < third.offset
        events = await feed.read(first.partition)
        assert [(body_of(event), event.key) for event in events] == [
            (1, "drone-7"),
            (2, "drone-7"),
            (3, "drone-7"),
        ]
        assert [event.offset for event in events] == [first.offset, second.offset, third.offset]

    async def test_events_with_neither_key_nor_id_are_spread_evenly(self, feed: Feed) -> None:
        """EH-02."""
        for number in range(20):
            await feed.put(number)
        await feed.append(*(feed.new(number) for number in range(20, 40)))

        shares = Counter(event.partition for event in await feed.everything())
        assert shares == {0: 10, 1: 10, 2: 10, 3: 10}

    async def test_what_many_append_at_once_is_all_there_each_in_its_own_place(self, feed: Feed) -> None:
        placed = await asyncio.gather(*(feed.put(number, key=f"k{number % 7}") for number in range(200)))

        assert len({(one.partition, one.offset) for one in placed}) == 200
        events = await feed.everything()
        assert sorted(body_of(event) for event in events) == [*range(200)]
        by_place = {(event.partition, event.offset): body_of(event) for event in events}
        assert [by_place[one.partition, one.offset] for one in placed] == [*range(200)]

    async def test_streams_know_nothing_of_each_other(self, feed: Feed) -> None:
        await feed.declare("other")
        await feed.put("here", key="k", id="e1")

        there = await feed.put("there", key="k", id="e1", to="other")

        assert not there.duplicate
        assert await feed.bodies() == ["here"]
        assert await feed.bodies("other") == ["there"]

    async def test_an_event_is_read_as_it_was_appended(self, feed: Feed, clock: ManualClock) -> None:
        """EH-01: body, properties, offset, enqueued time, key."""
        body = '{ "ключ": [1.50, null], "t": "\\u0000" }'.encode()
        event = NewEvent(body=body, key="clé", id="e:1", headers={"source": "drône"})
        placed = await feed.append(event)

        [found] = await feed.everything()

        assert found.body == body
        assert (found.key, found.id, found.headers) == ("clé", "e:1", {"source": "drône"})
        assert found.enqueued_at == clock.now()
        assert placed == [Appended(found.partition, found.offset)]

    async def test_nothing_is_appended_by_nothing(self, feed: Feed) -> None:
        assert await feed.append() == []
        assert await feed.bodies() == []

    # Once

    async def test_the_same_event_again_within_the_window_is_the_one_that_is_there(
        self, feed: Feed, clock: ManualClock
    ) -> None:
        await feed.declare(dedup=WINDOW)
        first = await feed.put("a", id="e1")
        clock.pass_time(WINDOW - SECOND)

        again = await feed.put("a", id="e1")

        assert again == Appended(first.partition, first.offset, duplicate=True)
        assert await feed.bodies() == ["a"]

    async def test_a_retry_meets_the_first_try_in_the_same_call_and_at_the_same_time(
        self, feed: Feed
    ) -> None:
        twice = await feed.put_all(feed.new("a", id="e1"), feed.new("a", id="e1"))
        at_once = await asyncio.gather(*(feed.put("b", key="k", id="e2") for _ in range(20)))

        assert [one.duplicate for one in twice] == [False, True]
        assert [one.duplicate for one in at_once].count(False) == 1
        assert len({(one.partition, one.offset) for one in at_once}) == 1
        assert sorted(await feed.bodies()) == ["a", "b"]

    @pytest.mark.parametrize(
        ("body", "key"), [("b", "k"), ("a", "other"), ("a", None)], ids=["body", "key", "no key"]
    )
    async def test_an_id_with_other_content_is_refused_and_the_others_are_appended(
        self, feed: Feed, body: str, key: str | None
    ) -> None:
        first = await feed.put("a", key="k", id="e1")

        before, refused, behind = await feed.append(
            feed.new("before"), feed.new(body, key=key, id="e1"), feed.new("behind")
        )

        assert isinstance(refused, EventConflict)
        assert isinstance(before, Appended)
        assert isinstance(behind, Appended)
        assert sorted(await feed.bodies()) == ["a", "before", "behind"]
        assert (await feed.put("a", key="k", id="e1")).offset == first.offset

    async def test_after_the_window_the_id_is_free(self, feed: Feed, clock: ManualClock) -> None:
        await feed.declare(dedup=WINDOW)
        await feed.put("a", id="e1")
        clock.pass_time(WINDOW)

        assert not (await feed.put("b", id="e1")).duplicate

        assert sorted(await feed.bodies()) == ["a", "b"]
        assert (await feed.put("b", id="e1")).duplicate

    async def test_an_id_stays_known_after_its_event_is_forgotten(
        self, feed: Feed, clock: ManualClock
    ) -> None:
        await feed.declare(retention=MINUTE, dedup=WINDOW)
        first = await feed.put("a", id="e1")
        clock.pass_time(2 * MINUTE)
        assert await feed.trim() == 1

        again = await feed.put("a", id="e1")

        assert again == Appended(first.partition, first.offset, duplicate=True)
        assert await feed.bodies() == []

    async def test_without_a_window_ids_may_come_again(self, feed: Feed) -> None:
        await feed.declare(dedup=timedelta(0))

        placed = await feed.put_all(feed.new("a", id="e1"), feed.new("b", id="e1"))

        assert [one.duplicate for one in placed] == [False, False]
        assert sorted(await feed.bodies()) == ["a", "b"]

    # Room

    async def test_a_full_stream_refuses_what_comes_and_keeps_what_it_has(self, feed: Feed) -> None:
        """EH-13, QL-2."""
        await feed.declare(bytes_max=100_000)
        taken = await fill(feed)

        with pytest.raises(StreamFull, match="'rides'"):
            await feed.append(feed.new("x" * 10_000), feed.new("x" * 10_000))

        assert len(await feed.everything()) == taken > 0

    async def test_a_full_stream_still_answers_for_what_it_has(self, feed: Feed) -> None:
        await feed.declare(bytes_max=100_000)
        first = await feed.put("x" * 10_000, id="e1")
        await fill(feed)

        assert await feed.put("x" * 10_000, id="e1") == Appended(
            first.partition, first.offset, duplicate=True
        )

    async def test_a_full_stream_takes_more_once_its_limit_is_raised(self, feed: Feed) -> None:
        await feed.declare(bytes_max=100_000)
        taken = await fill(feed)

        await feed.declare(bytes_max=200_000)

        await feed.put("x" * 10_000)
        assert len(await feed.everything()) == taken + 1

    async def test_one_full_stream_is_no_other_streams_concern(self, feed: Feed) -> None:
        await feed.declare(bytes_max=100_000)
        await feed.declare("other")
        await fill(feed)

        await feed.put("y", to="other")

        assert await feed.bodies("other") == ["y"]


async def fill(feed: Feed) -> int:
    """Append until there is no room; how many events that took."""
    for count in range(100):
        try:
            await feed.put("x" * 10_000)
        except StreamFull:
            return count
    raise AssertionError("a megabyte went into a tenth of one")
