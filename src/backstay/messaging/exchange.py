"""Where a process sends and receives: checks everything before anything is written, waits for what comes."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from backstay.clock import Clock
from backstay.definitions.codec import check_size, encode
from backstay.definitions.registry import Registry
from backstay.domain.durations import Duration, Instant, describe, duration, instant_of
from backstay.domain.ids import new_id
from backstay.domain.message import (
    Lock,
    MessageRecord,
    NewMessage,
    Properties,
    Sent,
    Settlement,
    checked_limit,
    checked_priority,
    checked_properties,
    checked_sequence,
)
from backstay.domain.status import destination
from backstay.domain.task import check_id
from backstay.errors import BackstayError, InvalidRequest
from backstay.messaging.bell import Bell, rung
from backstay.messaging.message import Message, as_message
from backstay.messaging.queue import Queues
from backstay.settings import Settings
from backstay.tracing import configured

_SHORTEST: Final = timedelta(milliseconds=1)
#: So long a receive may wait.
WAIT_MAX: Final = timedelta(hours=1)


class Exchange:
    """The queues of one store. What the application declares is made when it is first used."""

    def __init__(self, queues: Queues, registry: Registry, *, settings: Settings, clock: Clock) -> None:
        self.queues = queues
        self.bell = Bell(queues.listen)
        self._registry = registry
        self._settings = settings
        self._clock = clock
        # Seeded by the operating system, once: asking it for every id costs more than all else here.
        self._random_bits = Random().getrandbits  # noqa: S311  Ids are no secrets.
        self._made: set[str] = set()
        self._made_topics: set[str] = set()
        # Of a crowd that comes first, one makes the queue; each for itself, they would take all connections.
        self._making = asyncio.Lock()
        self._tracing = configured()

    def close(self) -> None:
        self.bell.close()

    # Declare

    async def declare_all(self) -> None:
        """Make everything that the application declares."""
        for name in self._registry.queues:
            await self.make(name)
        for name in self._registry.topics:
            await self.make_topic(name)

    async def make(self, name: str) -> None:
        """Make the queue of this name if the application declares it, once."""
        if name not in self._made:
            async with self._making:
                await self._make(name)

    async def make_destination(self, reply_to: str | None) -> None:
        """The same for the queue or topic at which the submitter of a task wants to be told."""
        if reply_to is not None:
            name, topic = destination(reply_to)
            await (self.make_topic(name) if topic else self.make(name))

    async def make_topic(self, name: str) -> None:
        """The same for a topic with its subscriptions."""
        if not self._is_made(name):
            async with self._making:
                await self._make_topic(name)

    async def _make(self, name: str) -> None:
        declared = self._registry.queues.get(name)
        if declared is None:
            topic = self._registry.topic_of(name)
            if topic is not None:
                await self._make_topic(topic)
        elif name not in self._made:
            await self.queues.declare(declared.terms(self._settings), now=self._clock.now())
            self._made.add(name)

    async def _make_topic(self, name: str) -> None:
        now = self._clock.now()
        if name not in self._made_topics:
            await self.queues.declare_topic(name, now=now)
            self._made_topics.add(name)
        for one in [*self._registry.topics[name].values()]:
            if one.queue.name not in self._made:
                await self.queues.subscribe(one.subscription, one.queue.terms(self._settings), now=now)
                self._made.add(one.queue.name)

    def _is_made(self, topic: str) -> bool:
        """Whether nothing is left to be made of a topic; of one that is not declared, nothing is."""
        subscriptions = self._registry.topics.get(topic)
        if subscriptions is None:
            return True
        return topic in self._made_topics and all(
            one.queue.name in self._made for one in subscriptions.values()
        )

    # Send

    async def send(
        self,
        to: str,
        body: Any = None,
        *,
        topic: bool = False,
        id: str | None = None,
        session: str | None = None,
        priority: int = 0,
        properties: Properties | None = None,
        at: Instant | None = None,
        ttl: Duration | None = None,
    ) -> Sent:
        """Send one message; durable once this comes back."""
        if self._tracing is not None:
            properties = self._tracing.carried(properties or {})
        new = self.new_message(
            to,
            body,
            topic=topic,
            id=id,
            session=session,
            priority=priority,
            properties=properties,
            at=at,
            ttl=ttl,
        )
        await (self.make_topic(to) if topic else self.make(to))
        [answer] = await self.queues.send([new], now=self._clock.now())
        if isinstance(answer, BackstayError):
            raise answer
        return answer

    def new_message(
        self,
        to: str,
        body: Any = None,
        *,
        topic: bool = False,
        id: str | None = None,
        session: str | None = None,
        priority: int = 0,
        properties: Properties | None = None,
        at: Instant | None = None,
        ttl: Duration | None = None,
    ) -> NewMessage:
        """The message that these arguments describe. Raises a kind of InvalidRequest, and writes nothing."""
        now = self._clock.now()
        what = f"body of a message to {to}"
        return NewMessage(
            to=check_id(to, name="name of the topic" if topic else "name of the queue"),
            topic=topic,
            id=new_id(now, self._random_bits) if id is None else check_id(id),
            named=id is not None,
            body=check_size(encode(body, what), what, self._settings.payload_bytes_max),
            session=None if session is None else check_id(session, name="session"),
            priority=checked_priority(priority),
            properties={} if properties is None else checked_properties(properties),
            at=None if at is None else instant_of(at, now=now, name="at"),
            ttl=None if ttl is None else duration(ttl, name="ttl", least=_SHORTEST),
        )

    async def cancel(self, queue: str, sequence: int) -> bool:
        """Take back a message that was sent to be received later; whether it was still waiting."""
        return await self.queues.cancel(check_id(queue), sequence, now=self._clock.now())

    # Receive

    async def receive(
        self,
        queue: str,
        *,
        max: int = 1,
        wait: Duration | None = None,
        at_most_once: bool = False,
    ) -> list[Message]:
        """Up to ``max`` messages, each locked, or gone (``at_most_once``); none, if none comes in time."""
        limit = checked_limit(max)
        give_up_at = asyncio.get_running_loop().time() + checked_wait(wait).total_seconds()
        await self.make(check_id(queue, name="name of the queue"))
        with self.bell.at(queue) as event:
            while True:
                received = await (self._remove(queue, limit) if at_most_once else self.take(queue, limit))
                if received or not await self._comes(queue, event, give_up_at):
                    return received

    async def _comes(self, queue: str, event: asyncio.Event, give_up_at: float) -> bool:
        """Wait until there is something to receive, as far as a look can tell; whether it came in time."""
        loop = asyncio.get_running_loop()
        while (left := give_up_at - loop.time()) > 0:
            await rung(event, within=left)
            if await self.queues.has_ready(queue, now=self._clock.now()):
                return True
        return False

    async def take(self, queue: str, limit: int) -> list[Message]:
        """What there is now, up to ``limit``; broken off, it leaves nothing locked."""
        return await self._received(
            self.queues.receive(queue, limit=limit, secret=secrets.token_hex(8), now=self._clock.now())
        )

    async def receive_deferred(self, queue: str, sequences: Sequence[int]) -> list[Message]:
        """Those of these messages that were deferred, each locked, in the order of their numbers."""
        checked_limit(len(sequences), name="number of sequence numbers")
        await self.make(check_id(queue, name="name of the queue"))
        secret, wanted = secrets.token_hex(8), [checked_sequence(one) for one in sequences]
        return await self._received(
            self.queues.receive_deferred(queue, wanted, secret=secret, now=self._clock.now())
        )

    async def _remove(self, queue: str, limit: int) -> list[Message]:
        records = await self.queues.take(queue, limit=limit, now=self._clock.now())
        return [as_message(record, None) for record in records]

    async def _received(self, locking: Awaitable[list[MessageRecord]]) -> list[Message]:
        receiving = asyncio.ensure_future(locking)
        try:
            records = await asyncio.shield(receiving)
        except asyncio.CancelledError:
            await self._give_back(receiving)
            raise
        return [as_message(record, self) for record in records]

    async def _give_back(self, receiving: asyncio.Future[list[MessageRecord]]) -> None:
        with contextlib.suppress(BackstayError):
            messages = [as_message(record, self) for record in await receiving]
            await asyncio.gather(*(message.release() for message in messages))

    # Settle

    async def settle(self, settlement: Settlement) -> None:
        """Raises LockLost."""
        [answer] = await self.queues.settle([settlement], now=self._clock.now())
        if answer is not None:
            raise answer

    async def renew(self, lock: Lock) -> datetime:
        """Raises LockLost."""
        [answer] = await self.renew_all([lock])
        if isinstance(answer, BackstayError):
            raise answer
        return answer

    async def rewrite(self, lock: Lock, body: Any) -> datetime:
        """Raises LockLost, or a kind of InvalidRequest for what no message can hold."""
        what = f"body of message {lock.id}"
        encoded = check_size(encode(body, what), what, self._settings.payload_bytes_max)
        answer = await self.queues.rewrite(lock, encoded, now=self._clock.now())
        if isinstance(answer, BackstayError):
            raise answer
        return answer

    async def renew_all(self, locks: Sequence[Lock]) -> list[datetime | BackstayError]:
        return await self.queues.renew(locks, now=self._clock.now())


def checked_wait(wait: Duration | None) -> timedelta:
    patience = timedelta(0) if wait is None else duration(wait, name="wait")
    if patience > WAIT_MAX:
        raise InvalidRequest(f"wait is {describe(patience)}; at most {describe(WAIT_MAX)} are allowed")
    return patience
