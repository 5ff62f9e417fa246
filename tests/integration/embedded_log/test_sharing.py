"""Several who append and read at once: in this process, and in others on the same file."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from backstay.domain.stream import Appended
from backstay.messaging.embedded import EmbeddedLog, writer
from backstay.messaging.embedded.tables import Tables
from backstay.sql.sqlite import others
from backstay.testing import ManualClock
from backstay.testing.promises.feed import Feed
from backstay.testing.promises.reading import Ear
from tests.integration.embedded_log.file import OpenLog

# Every log has a connection and a thread of its own: two of them are to the file what two processes are.


@pytest.fixture
async def other(feed: Feed, opened: OpenLog, clock: ManualClock) -> Feed:
    return Feed(await opened(), clock)


async def test_offsets_of_two_who_append_in_turns_follow_one_another(feed: Feed, other: Feed):
    places = [await one.put(number, key="k") for number in range(5) for one in (feed, other)]

    offsets = [place.offset for place in places]
    assert offsets == sorted(set(offsets))
    assert len(await feed.everything()) == len(await other.everything()) == 10


async def test_what_two_append_at_once_is_all_there(feed: Feed, other: Feed):
    await asyncio.gather(
        *(one.put([name, number]) for number in range(100) for name, one in (("a", feed), ("b", other)))
    )

    bodies = await feed.bodies()
    assert sorted(bodies) == sorted([name, number] for name in "ab" for number in range(100))


async def test_an_id_is_known_to_everybody(feed: Feed, other: Feed):
    first = await feed.put("a", id="e1")

    assert await other.put("a", id="e1") == Appended(first.partition, first.offset, duplicate=True)


async def test_terms_that_another_declares_count_at_once(feed: Feed, other: Feed):
    await other.put("x" * 1000)
    await feed.declare(bytes_max=1)

    with pytest.raises(Exception, match="limit"):
        await other.put("x")


async def test_who_listens_is_called_for_what_another_process_appends(feed: Feed, other: Feed):
    ear = Ear(feed.log)

    await other.put("a")
    await ear.heard("rides")
    ear.names.clear()
    await other.put("b")
    await ear.heard("rides")

    ear.stop()


async def test_nobody_who_only_appends_looks_whether_others_did(
    log: EmbeddedLog, feed: Feed, monkeypatch: pytest.MonkeyPatch
):
    looks: list[object] = []
    monkeypatch.setattr(others, "data_version", looks.append)

    for number in range(5):
        await feed.put(number)

    assert looks == []


async def test_a_commit_takes_as_much_as_it_may_and_the_next_one_the_rest(
    opened: OpenLog, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "COMMIT_EVENTS_MAX", 10)
    commits: list[str] = []
    feed = Feed(await opened(boundary=commits.append), clock)
    await feed.declare()
    commits.clear()

    await asyncio.gather(*(feed.append(feed.new(1), feed.new(2), feed.new(3)) for _ in range(10)))
    await feed.append(*(feed.new(number) for number in range(50)))

    assert len(await feed.everything()) == 80
    # The first may have gone alone, the others by threes; the last is larger than a commit, and goes whole.
    assert 4 <= commits.count("after") - 1 <= 10


async def test_those_who_append_wait_while_too_much_waits_already(
    opened: OpenLog, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "INBOX_EVENTS_MAX", 5)
    log = await opened()
    feed = Feed(log, clock)
    await feed.declare()
    waiting: list[int] = []

    def count(_tables: Tables) -> None:
        assert log._writer is not None
        waiting.append(log._writer._room._events)

    appends: list[Any] = [feed.put(number) for number in range(100)]
    assert log._writer is not None
    await asyncio.gather(*appends, *(log._writer.call(count) for _ in range(10)))

    assert len(await feed.everything()) == 100
    assert max(waiting) <= 5
    assert log._writer._room._events == log._writer._room._bytes == 0
