"""What many callers ask for at once leaves in few batches, and each caller gets its own answers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from backstay.errors import Conflict, StoreUnavailable
from backstay.store.gathering import BATCH_BYTES_MAX, BATCH_MAX, Gathering

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Writer:
    """Answers each number with its double; refuses what is negative, and holds on until it is let go."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.free = asyncio.Event()
        self.free.set()

    async def write(self, items: list[tuple[int, datetime]]) -> list[int]:
        await self.free.wait()
        self.batches.append([item for item, _ in items])
        if any(item < 0 for item, _ in items):
            raise Conflict("a negative number")
        if any(item == 0 for item, _ in items):
            raise StoreUnavailable("nothing")
        return [2 * item for item, _ in items]


async def test_what_comes_while_one_batch_is_written_leaves_together():
    writer = Writer()
    gathering = Gathering(writer.write)
    writer.free.clear()
    first = asyncio.create_task(gathering.add([1], now=NOON))
    await asyncio.sleep(0)
    others = [asyncio.create_task(gathering.add([number, number], now=NOON)) for number in (2, 3, 4)]
    await asyncio.sleep(0)
    writer.free.set()

    assert await first == [2]
    assert await asyncio.gather(*others) == [[4, 4], [6, 6], [8, 8]]
    assert writer.batches == [[1], [2, 2, 3, 3, 4, 4]]


async def test_nothing_is_answered_at_once():
    assert await Gathering(Writer().write).add([], now=NOON) == []


async def test_one_that_breaks_a_rule_fails_alone():
    writer = Writer()
    gathering = Gathering(writer.write)

    answers = await asyncio.gather(
        *(gathering.add([number], now=NOON) for number in (1, -2, 3)), return_exceptions=True
    )

    assert answers[0] == [2]
    assert isinstance(answers[1], Conflict)
    assert answers[2] == [6]


async def test_a_store_that_is_away_fails_everybody_in_the_batch():
    gathering = Gathering(Writer().write)

    answers = await asyncio.gather(
        *(gathering.add([number], now=NOON) for number in (0, 1)), return_exceptions=True
    )

    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    assert await gathering.add([4], now=NOON) == [8]


async def test_a_mistake_of_ours_leaves_nobody_waiting():
    async def broken(items: list[tuple[int, datetime]]) -> list[int]:
        raise ZeroDivisionError

    gathering = Gathering(broken)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="ZeroDivisionError"):
            await gathering.add([1], now=NOON)


@pytest.mark.parametrize(("weight", "expected"), [(0, BATCH_MAX), (BATCH_BYTES_MAX // 4, 4)])
async def test_a_batch_is_bounded_in_number_and_size(weight, expected):
    writer = Writer()
    gathering = Gathering(writer.write, weigh=lambda _item: weight)

    await asyncio.gather(*(gathering.add([1], now=NOON) for _ in range(BATCH_MAX + 1)))

    assert max(map(len, writer.batches)) == expected


async def test_a_caller_that_no_longer_waits_disturbs_nobody():
    writer = Writer()
    gathering = Gathering(writer.write)
    writer.free.clear()
    gone = asyncio.create_task(gathering.add([1], now=NOON))
    stays = asyncio.create_task(gathering.add([2], now=NOON))
    await asyncio.sleep(0)
    gone.cancel()
    writer.free.set()

    assert await stays == [4]
