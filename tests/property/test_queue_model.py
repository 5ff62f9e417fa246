"""Whatever is done to a queue, in whatever order, it does what the model says, on every database."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstay.domain.message import Action, MessageRecord
from backstay.errors import LockLost, QueueFull
from backstay.testing import ManualClock
from backstay.testing.promises.mail import Mail, lock_of
from tests.property.queue_model import Letter, QueueModel
from tests.property.stage import Stage

FULL = os.environ.get("BACKSTAY_TEST_CHAOS") == "full"
EXAMPLES = {"sqlite": 1_000 if FULL else 150, "postgres": 300 if FULL else 30}

LOCK = timedelta(seconds=10)
MAX_DELIVERIES = 2
MAX_MESSAGES = 6
SECOND = timedelta(seconds=1)

# Few of each, so that what happens meets what happened before.
sends = st.fixed_dictionaries(
    {
        "session": st.sampled_from([None, None, "a", "a", "b"]),
        "priority": st.sampled_from([0, 0, 1, -1]),
        "wait": st.sampled_from([0, 0, 0, 5, 12]),
        "ttl": st.sampled_from([None, None, None, 3, 15]),
    }
)
settlements = st.tuples(st.integers(0, 9), st.sampled_from(Action), st.sampled_from([0, 4]))
operations = st.one_of(
    st.tuples(st.just("send"), sends),
    st.tuples(st.just("receive"), st.integers(1, 3)),
    st.tuples(st.just("take"), st.integers(1, 2)),
    st.tuples(st.just("receive_deferred"), st.integers(0, 9)),
    st.tuples(st.just("rewrite"), st.integers(0, 9)),
    st.tuples(st.just("settle"), settlements),
    st.tuples(st.just("renew"), st.integers(0, 9)),
    st.tuples(st.just("pass_time"), st.sampled_from([1, 4, 10, 61])),
)


class Story:
    """A queue and its model, and everything that was ever received."""

    def __init__(self, mail: OwnQueue) -> None:
        self._mail = mail
        self._model = QueueModel(lock=LOCK, max_deliveries=MAX_DELIVERIES, max_letters=MAX_MESSAGES)
        self._received: list[tuple[MessageRecord, Letter, int | None]] = []
        self._count = 0

    async def tell(self, operations: list[tuple[str, Any]]) -> None:
        for name, details in operations:
            await getattr(self, name)(details)
        await self.receive(100)
        assert sorted(one.id for one in await self._mail.dead()) == sorted(self._model.dead)

    async def send(self, given: dict[str, Any]) -> None:
        now = self._mail.now
        at = now + given["wait"] * SECOND
        ttl = None if given["ttl"] is None else given["ttl"] * SECOND
        common = {"session": given["session"], "priority": given["priority"], "ttl": ttl}
        self._count += 1
        fits = self._model.send(f"m{self._count}", at=at, now=now, **common)
        try:
            await self._mail.send(id=f"m{self._count}", at=at, **common)
        except QueueFull:
            assert not fits
        else:
            assert fits

    async def receive(self, limit: int) -> None:
        now = self._mail.now
        letters = self._model.receive(limit, now)
        messages = await self._mail.receive(limit=limit)
        assert [(one.id, one.delivery_count) for one in messages] == [
            (one.id, one.deliveries) for one in letters
        ]
        self._received += [
            (message, letter, letter.token) for message, letter in zip(messages, letters, strict=True)
        ]

    async def take(self, limit: int) -> None:
        letters = self._model.take(limit, self._mail.now)
        messages = await self._mail.take(limit=limit)
        assert [(one.id, one.delivery_count) for one in messages] == [
            (one.id, one.deliveries) for one in letters
        ]

    async def receive_deferred(self, which: int) -> None:
        if not self._received:
            return
        message, letter, _ = self._received[which % len(self._received)]
        found = self._model.receive_deferred(letter, self._mail.now)
        messages = await self._mail.receive_deferred(message.sequence)
        assert [(one.id, one.delivery_count) for one in messages] == (
            [(letter.id, letter.deliveries)] if found else []
        )
        self._received += [(message, letter, letter.token) for message in messages]

    async def settle(self, given: tuple[int, Action, int]) -> None:
        if not self._received:
            return
        which, action, delay = given
        message, letter, token = self._received[which % len(self._received)]
        now = self._mail.now
        held = self._model.holds(letter, token, now)
        answer = await self._mail.settle(message, action, delay=delay * SECOND, reason="no")
        assert isinstance(answer, LockLost) is not held
        if held:
            match action:
                case Action.COMPLETE:
                    self._model.complete(letter, now)
                case Action.ABANDON:
                    self._model.abandon(letter, delay * SECOND, now)
                case Action.RELEASE:
                    self._model.release(letter, now)
                case Action.DEFER:
                    self._model.defer(letter, now)
                case _:
                    self._model.set_aside(letter, now)

    async def renew(self, which: int) -> None:
        if not self._received:
            return
        message, letter, token = self._received[which % len(self._received)]
        held = self._model.holds(letter, token, self._mail.now)
        [answer] = await self._mail.queues.renew([lock_of(message)], now=self._mail.now)
        assert isinstance(answer, LockLost) is not held
        if held:
            self._model.renew(letter, self._mail.now)

    async def rewrite(self, which: int) -> None:
        if not self._received:
            return
        message, letter, token = self._received[which % len(self._received)]
        held = self._model.holds(letter, token, self._mail.now)
        answer = await self._mail.queues.rewrite(lock_of(message), b"7", now=self._mail.now)
        assert isinstance(answer, LockLost) is not held
        if held:
            self._model.renew(letter, self._mail.now)

    async def pass_time(self, seconds: int) -> None:
        self._mail.clock.pass_time(seconds * SECOND)


def test_a_queue_does_what_the_model_says(stage: Stage, request: pytest.FixtureRequest):
    runner, store = stage
    number = 0
    kind = request.node.callspec.params["database"]

    async def tell(story: list[tuple[str, Any]]) -> None:
        nonlocal number
        number += 1
        mail = OwnQueue(store.queues, ManualClock(), f"q{number}")
        await mail.declare(mail.name, lock=LOCK, max_deliveries=MAX_DELIVERIES, max_messages=MAX_MESSAGES)
        await Story(mail).tell(story)

    @settings(max_examples=EXAMPLES[kind], suppress_health_check=list(HealthCheck), derandomize=not FULL)
    @given(st.lists(operations, min_size=8, max_size=60))
    def told(story: list[tuple[str, Any]]) -> None:
        runner.run(tell(story))

    told()


class OwnQueue(Mail):
    """Speaks of a queue of its own where others speak of orders."""

    def __init__(self, queues: Any, clock: ManualClock, name: str) -> None:
        super().__init__(queues, clock)
        self.name = name

    async def send(self, body: Any = None, **fields: Any) -> Any:
        return await super().send(body, to=self.name, **fields)

    async def receive(self, name: str = "", *, limit: int = 100) -> list[MessageRecord]:
        return await super().receive(name or self.name, limit=limit)

    async def take(self, *, limit: int) -> list[MessageRecord]:
        return await self.queues.take(self.name, limit=limit, now=self.now)

    async def receive_deferred(self, *sequences: int) -> list[MessageRecord]:
        secret = f"by-number-{next(self._secrets)}"
        return await self.queues.receive_deferred(self.name, sequences, secret=secret, now=self.now)

    async def dead(self, name: str = "") -> list[MessageRecord]:
        return await super().dead(name or self.name)
