"""How much is in hand at once: bytes of a process, slots of a pipeline, tasks of a workflow."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from backstay.domain.stream import EventRecord
from backstay.errors import InvalidSetting
from backstay.ingest.streams.allowance import Allowance
from backstay.ingest.streams.budget import EVENT_BYTES, LEAST_BYTES, READ_BYTES, Budget
from backstay.ingest.streams.flow import SLICE_MAX
from backstay.ingest.streams.slots import Slots
from backstay.settings import Settings
from backstay.testing import ManualClock

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


def record(size: int) -> EventRecord:
    return EventRecord(
        partition=0, offset=0, body=b"x" * size, key=None, id=None, headers=None, enqueued_at=EPOCH
    )


def test_a_budget_counts_bodies_and_what_every_event_takes_beside():
    budget = Budget(10_000)
    size = budget.charge([record(100), record(200)])

    assert size == budget.held == 300 + 2 * EVENT_BYTES
    budget.release(size)
    assert budget.held == 0


def test_what_is_reserved_is_held_before_it_is_read():
    budget = Budget(2 * READ_BYTES)

    assert [budget.reserve() for _ in range(3)] == [READ_BYTES, READ_BYTES, LEAST_BYTES]
    assert not budget.has_room


async def test_who_waits_for_room_is_called_once_there_is_some():
    budget = Budget(1_000)
    wake = asyncio.Event()
    size = budget.charge([record(2_000)])
    budget.call_when_free(wake)
    budget.release(1)
    assert not wake.is_set()
    budget.release(size - 1)
    assert wake.is_set()


def test_slots_are_taken_in_turn():
    slots = Slots(2)
    called: list[str] = []

    def first() -> None:
        called.append("first")
        slots.take()

    def second() -> None:
        called.append("second")
        slots.take()

    assert [slots.take() for _ in range(3)] == [True, True, False]
    slots.call_when_free(first)
    slots.call_when_free(second)
    slots.call_when_free(first)
    assert slots.wanted_beside(first)
    slots.give_back()
    assert called == ["first"]
    slots.give_back()
    assert called == ["first", "second"]
    slots.call_when_free(first)
    assert not slots.wanted_beside(first)


def test_who_leaves_the_line_is_not_called():
    slots = Slots(1)
    slots.take()
    slots.call_when_free(lambda: None)
    called: list[str] = []

    def one() -> None:
        called.append("one")

    slots.call_when_free(one)
    slots.leave_line(one)
    slots.give_back()
    assert called == []


class Waiting:
    """As much of a store as counts how many tasks wait."""

    def __init__(self) -> None:
        self.tasks = 0
        self.counts = 0

    async def backlog(self, *, at_most: int, workflow: str | None = None) -> int:
        self.counts += 1
        return min(self.tasks, at_most)


async def test_an_allowance_is_used_up_by_what_is_started_and_counted_anew_only_then():
    store: Any = Waiting()
    store.tasks = 4
    allowance = Allowance(store, "w", max_pending=10, clock=ManualClock())

    assert await allowance.take(4) == 4
    assert await allowance.take(4) == 2
    assert store.counts == 1
    allowance.give_back(1)
    assert await allowance.take(4) == 1
    # Five are under way to the store, of which no count knows.
    assert await allowance.take(4) == 0
    assert store.counts == 2
    store.tasks = 5
    allowance.written(6)
    assert await allowance.take(9) == 5


async def test_those_who_wait_for_an_allowance_share_one_count():
    store: Any = Waiting()
    store.tasks = 10
    allowance = Allowance(store, "w", max_pending=10, clock=ManualClock())

    assert await asyncio.gather(*(allowance.take(1) for _ in range(50))) == [0] * 50
    assert store.counts == 1


def test_what_is_read_at_once_finds_room_in_an_empty_quarantine():
    with pytest.raises(InvalidSetting, match="quarantine_max"):
        Settings.load({"quarantine_max": 2 * SLICE_MAX - 1}, environment={})
