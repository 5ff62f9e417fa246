"""Receives the messages of one queue and hands each to its handler.

What the handler returns, or raises, decides what becomes of the message. A handler whose message was
lost is cancelled: somebody else may have received it by now.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Final

from backstay.clock import Clock
from backstay.definitions.queues import ConsumerDefinition
from backstay.domain.message import REASON_LENGTH_MAX, RECEIVE_MAX, prefetch_allowed, shortened_detail
from backstay.domain.request import TRACEPARENT
from backstay.errors import BackstayError, LockLost, Permanent, Unavailable
from backstay.ingest.queues.keeper import Held, Keeper
from backstay.ingest.waiting import within
from backstay.messaging.bell import rung
from backstay.messaging.exchange import Exchange
from backstay.messaging.message import Message
from backstay.observe import MESSAGE_ABANDONED, MESSAGE_LOCK_LOST, STORE_UNAVAILABLE, emit, log
from backstay.pulse import Pulse
from backstay.tracing import configured

# A store that is away is asked again after this pause.
RETRY_SECONDS: Final = 0.5
# How often who waits for room shows that it is at work.
_PULSE_SECONDS: Final = 1.0
# How much the last message counts for how long one takes.
_LAST_COUNTS: Final = 0.2


class Consumer:
    """One handler at one queue, in this process."""

    def __init__(self, declared: ConsumerDefinition, exchange: Exchange, *, clock: Clock) -> None:
        self._declared = declared
        self._exchange = exchange
        self._clock = clock
        self._keeper = Keeper(exchange, clock=clock, lose=self._lost)
        self._buffer: deque[Held] = deque()
        self._at_work: set[Held] = set()
        self._handling: timedelta | None = None
        self._room = asyncio.Event()
        self._draining = False
        self._tracing = configured()
        self.pulse = Pulse(clock)

    @property
    def queue(self) -> str:
        return self._declared.queue

    @property
    def in_flight(self) -> int:
        return len(self._at_work)

    # Run

    async def run(self) -> None:
        """Receive and handle, until cancelled; what was not handled by then is given back uncounted."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keeper.run(), name=f"backstay-keeper {self.queue}")
                with self._exchange.bell.at(self.queue) as event:
                    while not self._draining:
                        await self._turn(group, event)
                await asyncio.Event().wait()  # Whoever drains waits for those at work, and then cancels.
        finally:
            await asyncio.shield(self._give_back())

    async def run_once(self) -> int:
        """Receive once and handle what came to its end; how many that were."""
        await self._exchange.make(self.queue)
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(self._keeper.run(), name=f"backstay-keeper {self.queue}")
            taken = await self._fill(group)
            while self._at_work or self._buffer:
                self._room.clear()
                self._begin(group)
                await self._room.wait()
            keeping.cancel()
        return taken

    async def drain(self) -> None:
        """Receive nothing more, give back what waits, and come back when nothing is at work."""
        self._draining = True
        self._room.set()
        waiting, self._buffer = self._buffer, deque()
        await self._release(list(waiting))
        while self._at_work:
            self._room.clear()
            await self._room.wait()

    async def _turn(self, group: asyncio.TaskGroup, event: asyncio.Event) -> None:
        """Receive as many as there is room for; wait for room, or for something to receive."""
        self.pulse.felt()
        self._room.clear()
        try:
            await self._exchange.make(self.queue)
            if self._wanted() <= 0:
                await within(_PULSE_SECONDS, self._room)
            elif not await self._fill(group):
                await rung(event)
                while not self._draining and not await self._has_ready():
                    self.pulse.felt()
                    await rung(event)
        except BackstayError as error:
            # The store is away, or somebody has yet to declare the queue.
            emit(STORE_UNAVAILABLE, error=error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _has_ready(self) -> bool:
        return await self._exchange.queues.has_ready(self.queue, now=self._clock.now())

    # Receive

    def _wanted(self) -> int:
        """How many may be received now: no more than can be handled within their locks."""
        declared = self._declared
        ahead = declared.prefetch
        if ahead and self._keeper.lock is not None:
            ahead = prefetch_allowed(
                ahead, concurrency=declared.concurrency, lock=self._keeper.lock, handling=self._handling
            )
        else:
            ahead = min(ahead, declared.concurrency)
        return declared.concurrency + ahead - len(self._at_work) - len(self._buffer)

    async def _fill(self, group: asyncio.TaskGroup) -> int:
        taken = await self._keeper.take(self.queue, min(self._wanted(), RECEIVE_MAX))
        self._buffer.extend(taken)
        self._begin(group)
        return len(taken)

    def _begin(self, group: asyncio.TaskGroup) -> None:
        """Hand messages to the handler, as many at a time as it was declared for."""
        while self._buffer and len(self._at_work) < self._declared.concurrency:
            held = self._buffer.popleft()
            # What waited may have waited too long; the keeper may not have noticed yet.
            if not held.lost and held.until <= self._clock.monotonic():
                self._keeper.check()
            if held.lost:
                continue
            self._at_work.add(held)
            held.task = group.create_task(self._work(group, held), name=f"backstay-message {held.message.id}")

    # Handle

    async def _work(self, group: asyncio.TaskGroup, held: Held) -> None:
        begun = self._clock.monotonic()
        try:
            await self._handle(held)
        except asyncio.CancelledError:
            if not held.lost:
                self._at_work.discard(held)
                self._room.set()
                raise
            # We cancelled it ourselves, and it has stopped.
        else:
            self._took(timedelta(seconds=self._clock.monotonic() - begun))
        self._at_work.discard(held)
        if held.over:
            self._keeper.let_go(held)
        if not _is_cancelled(ours=held.lost):  # Else the group is about to end, and takes nobody in.
            self._begin(group)
        self._room.set()

    async def _handle(self, held: Held) -> None:
        message = held.message
        try:
            with self._traced(message):
                await self._declared.handler(message)
        except Permanent as error:
            reason = str(error).strip()[:REASON_LENGTH_MAX] or type(error).__name__
            await self._settle(held, partial(message.dead_letter, shortened_detail(reason), repr(error)))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            await self._failed(held, "the handler was cancelled, by itself")
        except Exception as error:  # noqa: BLE001  A handler may raise anything at all.
            await self._failed(held, repr(error), error)
        else:
            await self._settle(held, message.complete)

    def _traced(self, message: Message) -> AbstractContextManager[object]:
        """Around the handler, for whoever wants to know how long it takes and what it leads to."""
        if self._tracing is None:
            return nullcontext()
        return self._tracing.around(
            f"process {self.queue}",
            "CONSUMER",
            parent=message.properties.get(TRACEPARENT),
            message_id=message.id,
            delivery_count=message.delivery_count,
        )

    async def _failed(self, held: Held, why: str, error: Exception | None = None) -> None:
        message = held.message
        log.info("the handler of message %s failed", message.id, exc_info=error)
        emit(MESSAGE_ABANDONED, queue=self.queue, id=message.id, delivery=message.delivery_count, error=why)
        await self._settle(held, partial(message.abandon, delay=self._declared.delay, detail=why))

    async def _settle(self, held: Held, say: Callable[[], Awaitable[None]]) -> None:
        """Say what became of a message, unless its handler did; as long as the lock may hold."""
        while not held.message.settled:
            held.settling = True
            try:
                await say()
            except LockLost:
                held.lost = True
                self._tell_lost(held)
                return
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
                # Meanwhile its lock is kept.
                held.settling = False
                await asyncio.sleep(RETRY_SECONDS)

    def _took(self, time: timedelta) -> None:
        """Learn how long a message takes."""
        known = time if self._handling is None else self._handling
        self._handling = known + (time - known) * _LAST_COUNTS

    # Lose, and give back

    def _lost(self, held: Held) -> None:
        """The keeper says that a message is no longer ours."""
        self._tell_lost(held)
        if held.task is not None:
            held.task.cancel()
        with contextlib.suppress(ValueError):
            self._buffer.remove(held)
        self._room.set()

    def _tell_lost(self, held: Held) -> None:
        message = held.message
        emit(
            MESSAGE_LOCK_LOST,
            queue=self.queue,
            id=message.id,
            delivery=message.delivery_count,
            locked_until=message.locked_until,
        )

    async def _give_back(self) -> None:
        await self._release(self._keeper.all())

    async def _release(self, held: list[Held]) -> None:
        for one in held:
            self._keeper.let_go(one)
        # Those that cannot be given back come back when their locks run out.
        await asyncio.gather(*(one.message.release() for one in held if not one.over), return_exceptions=True)


def _is_cancelled(*, ours: bool) -> bool:
    """Whether somebody cancelled the task that runs; once less if we did so ourselves."""
    task = asyncio.current_task()
    assert task is not None
    if ours and task.cancelling():
        task.uncancel()
    return task.cancelling() > 0
