"""A scheduler as far as a store can see one: what the tests act through."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

import pytest

from backstay.domain.lease import Leader, Owner
from backstay.domain.operate import Amendment, cancel
from backstay.domain.states import TaskState
from backstay.domain.step import StepRecord
from backstay.domain.task import TaskRecord
from backstay.errors import BackstayError
from backstay.store.base import Claimed, NewInstance, Runnable, Store, Submitted, Transition
from backstay.testing.clock import ManualClock
from backstay.testing.records import let_go, new_task, replace

RUN_TIME: Final = timedelta(minutes=10)
SHIP: Final = Runnable("ship", 1, RUN_TIME)
LEASE: Final = timedelta(seconds=15)
SECOND: Final = timedelta(seconds=1)
#: For longer than any test lets pass.
FOR_LONG: Final = timedelta(days=10_000)
MANY: Final = 1_000
NO_GRACE: Final = timedelta(0)
CANCEL: Final = partial(cancel, undo=False)

Item = TypeVar("Item")


class Holder:
    """Registers, claims, and writes under the lock it got."""

    def __init__(self, store: Store, clock: ManualClock, owner: Owner) -> None:
        self._store = store
        self._clock = clock
        self.owner = owner

    @classmethod
    async def joined(
        cls, store: Store, clock: ManualClock, name: str, *, runs: Sequence[Runnable] = (SHIP,)
    ) -> Holder:
        instance = NewInstance(id=name, host="localhost", pid=1, runs=tuple(runs))
        return cls(store, clock, await store.register(instance, now=clock.now()))

    async def claim(self, *, limit: int = MANY, runs: Sequence[Runnable] = (SHIP,)) -> list[Claimed]:
        return await self._store.claim(self.owner, runs, limit=limit, now=self._clock.now())

    async def hold(self, id: str = "t", **fields: Any) -> TaskRecord:
        """Submit a task and claim it."""
        await submitted(self._store, self._clock, id, **fields)
        [claimed] = await self.claim()
        return claimed.task

    def turn(self, claimed: TaskRecord, /, **changed: Any) -> Transition:
        """A transition of a task, under the lock with which we claimed it."""
        steps = [replace(step, task_key=claimed.key) for step in changed.pop("steps", ())]
        after = changed.pop("task", None)
        now = self._clock.now()
        return Transition(
            owner=self.owner,
            task_key=claimed.key,
            lock_number=claimed.lock_number,
            at=now,
            task=None if after is None else replace(after, updated_at=now),
            steps=steps,
            replies=claimed.reply_to is not None,
            **changed,
        )

    def post(self, claimed: TaskRecord, /, **changed: Any) -> asyncio.Future[BackstayError | None]:
        """Send a turn on its way; the future has its answer once there is one."""
        return _posted(self._store, self.turn(claimed, **changed))

    async def write(self, claimed: TaskRecord, /, **changed: Any) -> BackstayError | None:
        return await self.post(claimed, **changed)

    async def leave(
        self, task: TaskRecord, state: TaskState, *, steps: Sequence[StepRecord] = (), **fields: Any
    ) -> None:
        """Write ``steps``, bring ``task`` into ``state`` and let it go."""
        assert await self.write(task, steps=steps, task=let_go(task, state, **fields)) is None


class Promises:
    """What every test stands on. A subclass provides the fixture ``store``: one that is open, and empty."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def leader(self, store: Store, clock: ManualClock) -> Leader:
        """Who may sweep; it is nobody's instance, and leads until the end."""
        return await store.supervision.lead("supervisor", lease=FOR_LONG, now=clock.now())

    @pytest.fixture
    async def alice(self, store: Store, clock: ManualClock) -> Holder:
        return await Holder.joined(store, clock, "alice")

    @pytest.fixture
    async def bob(self, store: Store, clock: ManualClock) -> Holder:
        return await Holder.joined(store, clock, "bob")


async def submitted(store: Store, clock: ManualClock, *ids: str, **fields: Any) -> list[TaskRecord]:
    answers = await store.submit([new_task(one, **fields) for one in ids], now=clock.now())
    return [answer.task for answer in answers if isinstance(answer, Submitted)]


async def taken_away(store: Store, clock: ManualClock, task: TaskRecord) -> None:
    """Free ``task`` under the hands of its holder, as an operator may."""

    def free(found: TaskRecord, _steps: list[StepRecord]) -> Amendment:
        return Amendment(let_go(found, TaskState.PENDING, lock_number=found.lock_number + 1))

    await store.amend(task.id, free, now=clock.now())


def batches(items: Sequence[Item], size: int = 100) -> Iterator[Sequence[Item]]:
    """A few at a time: as many at once as a store lets wait for it."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


async def applied(store: Store, *transitions: Transition) -> list[BackstayError | None]:
    """Hand all of them in at once; what each was answered."""
    return await asyncio.gather(*[_posted(store, transition) for transition in transitions])


def _posted(store: Store, transition: Transition) -> asyncio.Future[BackstayError | None]:
    answer: asyncio.Future[BackstayError | None] = asyncio.get_running_loop().create_future()
    store.apply(transition, answer.set_result)
    return answer
