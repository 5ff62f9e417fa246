"""Whatever is done to a stream, in whatever order, it does what the model says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstay.domain.stream import Appended, NewEvent
from backstay.errors import EventConflict
from backstay.messaging.embedded import EmbeddedLog
from backstay.testing import ManualClock
from backstay.testing.promises.feed import Feed
from tests.property.log_model import LogModel

FULL = os.environ.get("BACKSTAY_TEST_CHAOS") == "full"
EXAMPLES = 1_000 if FULL else 150

SECOND = timedelta(seconds=1)
PARTITIONS = 3
RETENTION = 60 * SECOND
DEDUP = 20 * SECOND

# Few of each, so that what happens meets what happened before.
events = st.builds(
    NewEvent,
    body=st.sampled_from([b"1", b"22", b'{"a": null}']),
    key=st.sampled_from([None, None, "a", "b", "c"]),
    id=st.sampled_from([None, None, "e1", "e2", "e3"]),
    headers=st.sampled_from([None, {"h": "v"}]),
)
partitions = st.integers(0, PARTITIONS - 1)
offsets = st.integers(0, 12)
operations = st.one_of(
    st.tuples(st.just("append"), st.lists(events, max_size=6)),
    st.tuples(st.just("read"), st.tuples(partitions, offsets, st.integers(1, 5))),
    st.tuples(st.just("trim"), st.tuples(st.dictionaries(partitions, offsets), st.integers(1, 4))),
    st.tuples(st.just("pass_time"), st.sampled_from([1, 9, 10, 20, 41])),
)

Stage = tuple[asyncio.Runner, EmbeddedLog]


class Story:
    """A stream and its model."""

    def __init__(self, feed: Feed, name: str) -> None:
        self._feed = feed
        self._name = name
        self._model = LogModel(PARTITIONS, RETENTION, DEDUP)

    async def tell(self, operations: list[tuple[str, Any]]) -> None:
        await self._feed.declare(self._name, partitions=PARTITIONS, retention=RETENTION, dedup=DEDUP)
        for name, details in operations:
            await getattr(self, name)(details)
        for partition in range(PARTITIONS):
            await self.read((partition, 0, 100))
        await self._standing()

    async def append(self, given: list[NewEvent]) -> None:
        now = self._feed.now
        wanted = [self._model.append(event, now) for event in given]
        for answer, told in zip(await self._feed.append(*given, to=self._name), wanted, strict=True):
            if told is None:
                assert isinstance(answer, EventConflict)
            else:
                assert answer == Appended(*told)

    async def read(self, given: tuple[int, int, int]) -> None:
        partition, start, limit = given
        end = (await self._feed.partition(partition, self._name)).end
        found = await self._feed.read(partition, name=self._name, start=min(start, end), limit=limit)
        assert [(one.offset, one.body, one.key, one.id, one.headers, one.enqueued_at) for one in found] == [
            (one.offset, one.event.body, one.event.key, one.event.id, one.event.headers, one.at)
            for one in self._model.read(partition, min(start, end), limit)
        ]

    async def trim(self, given: tuple[dict[int, int], int]) -> None:
        floors, limit = given
        gone = await self._feed.trim(floors, name=self._name, limit=limit)
        assert gone == self._model.trim(floors, limit, self._feed.now)

    async def pass_time(self, seconds: int) -> None:
        self._feed.clock.pass_time(seconds * SECOND)

    async def _standing(self) -> None:
        standing = await self._feed.standing(self._name)
        for one in standing.partitions:
            kept = [event for event in self._model.kept if event.partition == one.partition]
            assert one.end - one.first == len(kept)
            assert (one.bytes == 0) is (not kept)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A log for all the stories of one test: each has a stream of its own."""
    with asyncio.Runner() as runner:
        log = EmbeddedLog(f"sqlite:///{tmp_path}/log.db")
        runner.run(log.open())
        yield runner, log
        runner.run(log.close())


def test_a_stream_does_what_the_model_says(stage: Stage):
    runner, log = stage
    names = count()

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), derandomize=not FULL)
    @given(st.lists(operations, min_size=8, max_size=60))
    def stories(operations: list[tuple[str, Any]]) -> None:
        story = Story(Feed(log, ManualClock()), f"s{next(names)}")
        runner.run(story.tell(operations))

    stories()
