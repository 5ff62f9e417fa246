"""Who is told what became of its transition, in which order, and how many in one go."""

from __future__ import annotations

import asyncio

from backstay.domain.lease import Owner
from backstay.errors import BackstayError, LeaseLost
from backstay.store.base import Changes, Settle, Transition
from backstay.store.postgres.settling import AT_ONCE, FEW, Judged, Settling
from backstay.testing.records import NOON


class Batch:
    """Transitions whose answers are written down."""

    def __init__(self, heard: list[tuple[str, int]], name: str, size: int) -> None:
        self._heard = heard
        self._name = name
        self.judged: list[Judged] = [
            ((_turn(number), self._hears(number)), LeaseLost("it", "us") if number == 1 else None)
            for number in range(size)
        ]

    def _hears(self, number: int) -> Settle:
        def settle(refusal: BackstayError | None) -> None:
            assert (refusal is not None) is (number == 1)
            self._heard.append((self._name, number))

        return settle


def _turn(number: int) -> Transition:
    return Transition(owner=Owner("alice", 1), task_key=number, lock_number=1, at=NOON)


async def test_many_are_told_a_few_at_a_time_and_a_later_batch_after_an_earlier():
    heard: list[tuple[str, int]] = []
    told: list[Changes] = []
    settling = Settling(told.append)
    first, second, size = Changes(ended=["first"]), Changes(ended=["second"]), FEW + 1

    settling.add(Batch(heard, "first", size).judged, first)
    settling.add(Batch(heard, "second", size).judged, second)
    in_one_go = len(heard)
    await settling.done()

    assert in_one_go == AT_ONCE
    assert heard == [("first", number) for number in range(size)] + [
        ("second", number) for number in range(size)
    ]
    assert told == [first, second]


async def test_few_are_told_at_once():
    heard: list[tuple[str, int]] = []
    settling = Settling(lambda _changes: None)

    settling.add(Batch(heard, "only", FEW).judged, Changes())

    assert len(heard) == FEW
    async with asyncio.timeout(1):
        await settling.done()


async def test_a_batch_of_which_nothing_could_be_judged_is_told_of_all_the_same():
    told: list[Changes] = []
    settling = Settling(told.append)
    changes = Changes(claimable=True)

    settling.add([], changes)

    assert told == [changes]
