"""A sender and a receiver as far as queues can see them: what the tests act through."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import pytest

from backstay.domain.message import Action, Lock, MessageRecord, NewMessage, Queue, Sent, Settlement
from backstay.errors import BackstayError
from backstay.messaging.queue import Queues
from backstay.testing.clock import ManualClock

LOCK: Final = timedelta(seconds=60)
SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
MANY: Final = 1_000


class Mail:
    """Declares, sends, receives and settles, in the queue ``orders`` unless another is named."""

    def __init__(self, queues: Queues, clock: ManualClock) -> None:
        self.queues = queues
        self.clock = clock
        self._secrets = itertools.count(1)
        self._ids = itertools.count(1)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    async def declare(self, name: str = "orders", **terms: Any) -> None:
        await self.queues.declare(Queue(name=name, **terms), now=self.now)

    def new(self, body: Any = None, *, to: str = "orders", **fields: Any) -> NewMessage:
        named = {"named": True} if "id" in fields else {"id": f"made-{next(self._ids)}"}
        return NewMessage(to=to, body=msgspec.json.encode(body), **{**named, **fields})

    async def send(self, body: Any = None, *, to: str = "orders", **fields: Any) -> Sent:
        [answer] = await self.queues.send([self.new(body, to=to, **fields)], now=self.now)
        if isinstance(answer, BackstayError):
            raise answer
        return answer

    async def receive(self, name: str = "orders", *, limit: int = MANY) -> list[MessageRecord]:
        secret = f"secret-{next(self._secrets)}"
        return await self.queues.receive(name, limit=limit, secret=secret, now=self.now)

    async def one(self, name: str = "orders") -> MessageRecord:
        [message] = await self.receive(name, limit=1)
        return message

    async def bodies(self, name: str = "orders", *, limit: int = MANY) -> list[Any]:
        return [body_of(message) for message in await self.receive(name, limit=limit)]

    async def settle(self, message: MessageRecord, action: Action, **said: Any) -> BackstayError | None:
        [answer] = await self.queues.settle(
            [Settlement(lock=lock_of(message), action=action, **said)], now=self.now
        )
        return answer

    async def complete(self, *messages: MessageRecord) -> list[BackstayError | None]:
        done = [Settlement(lock=lock_of(message), action=Action.COMPLETE) for message in messages]
        return await self.queues.settle(done, now=self.now)

    async def abandon(self, message: MessageRecord, **said: Any) -> BackstayError | None:
        return await self.settle(message, Action.ABANDON, **said)

    async def renew(self, message: MessageRecord) -> datetime | BackstayError:
        [answer] = await self.queues.renew([lock_of(message)], now=self.now)
        return answer

    async def dead(self, name: str = "orders") -> list[MessageRecord]:
        return await self.queues.dead(name, limit=MANY)

    async def counts(self, name: str = "orders") -> dict[str, int]:
        """How many messages are in each state, but for those that none is in."""
        [standing] = await self.queues.standings(names=[name], limit=1, counted=MANY)
        every = {
            state: getattr(standing, state)
            for state in ("ready", "behind", "waiting", "locked", "deferred", "dead")
        }
        return {state: number for state, number in every.items() if number}


def lock_of(message: MessageRecord, *, token: str | None = None) -> Lock:
    return Lock(message.queue, message.id, token or message.lock_token or "")


def body_of(message: MessageRecord) -> Any:
    return msgspec.json.decode(message.body)


def ids(messages: Sequence[MessageRecord]) -> list[str]:
    return [message.id for message in messages]


class QueuePromises:
    """What every test stands on. A subclass provides the fixture ``queues``: open, and empty."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def mail(self, queues: Queues, clock: ManualClock) -> Mail:
        """With a queue called orders, as queues usually are."""
        mail = Mail(queues, clock)
        await mail.declare()
        return mail
