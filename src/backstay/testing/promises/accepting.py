"""A message becomes a task, and is done, in one transaction: all of it or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from backstay.domain.alert import AlertKind, NewAlert
from backstay.domain.message import Action
from backstay.domain.task import NewTask
from backstay.errors import IdConflict, InvalidInput, LockLost, Permanent, UnknownTask
from backstay.store.accepting import FunctionRaised
from backstay.store.base import Store, Submitted
from backstay.store.records import AlertFilter
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import Holder, Promises, submitted
from backstay.testing.promises.mail import LOCK, SECOND, Mail, lock_of
from backstay.testing.records import new_task

ALERT = NewAlert(kind=AlertKind.SUBMISSION_CONFLICT, message="two orders", target="queue:orders")


def giving(task: NewTask) -> Callable[[Any], Awaitable[NewTask]]:
    """A function that writes nothing of its own."""

    async def function(_connection: Any) -> NewTask:
        return task

    return function


class AcceptPromises(Promises):
    @pytest.fixture
    async def post(self, store: Store, clock: ManualClock) -> Mail:
        """With a queue called orders."""
        mail = Mail(store.queues, clock)
        await mail.declare()
        return mail

    async def test_what_is_accepted_is_a_task_and_no_longer_a_message(
        self, store: Store, clock: ManualClock, post: Mail, alice: Holder
    ) -> None:
        await post.declare("desk")
        await post.send()
        message = await post.one()

        answer = await store.accept(
            lock_of(message), giving(new_task("t", reply_to="queue:desk")), now=clock.now()
        )

        assert answer == Submitted(await store.task("t"), created=True)
        assert await post.counts() == {}
        assert [one["status"] for one in await post.bodies("desk")] == ["received"]
        assert [claimed.task.id for claimed in await alice.claim()] == ["t"]

    @pytest.mark.parametrize("error", [Permanent("no"), OSError("disk"), TimeoutError("late"), LookupError()])
    async def test_what_a_function_raises_leaves_everything_as_it_was(
        self, store: Store, clock: ManualClock, post: Mail, error: Exception
    ) -> None:
        await post.send()
        message = await post.one()

        async def function(_connection: Any) -> NewTask:
            raise error

        with pytest.raises(FunctionRaised) as raised:
            await store.accept(lock_of(message), function, now=clock.now())

        assert raised.value.error is error
        assert await post.counts() == {"locked": 1}
        assert await post.complete(message) == [None]

    async def test_a_lock_that_was_lost_undoes_the_task(
        self, store: Store, clock: ManualClock, post: Mail
    ) -> None:
        await post.send()
        message = await post.one()
        clock.pass_time(LOCK + SECOND)
        again = await post.one()

        with pytest.raises(LockLost):
            await store.accept(lock_of(message), giving(new_task("t")), now=clock.now())

        with pytest.raises(UnknownTask):
            await store.task("t")
        assert (await store.accept(lock_of(again), giving(new_task("t")), now=clock.now())).created

    async def test_a_message_whose_task_is_there_is_done_and_changes_nothing(
        self, store: Store, clock: ManualClock, post: Mail
    ) -> None:
        [known] = await submitted(store, clock, "t", input=b"1")
        await post.send()

        answer = await store.accept(
            lock_of(await post.one()), giving(new_task("t", input=b"1")), now=clock.now()
        )

        assert answer == Submitted(known, created=False)
        assert await post.counts() == {}

    async def test_a_message_whose_id_is_anothers_stays_and_overwrites_nothing(
        self, store: Store, clock: ManualClock, post: Mail
    ) -> None:
        [known] = await submitted(store, clock, "t", input=b"1")
        await post.send()
        message = await post.one()

        with pytest.raises(IdConflict):
            await store.accept(lock_of(message), giving(new_task("t", input=b"2")), now=clock.now())

        assert await store.task("t") == known
        assert await post.settle(message, Action.DEAD_LETTER, reason="IdConflict", alert=ALERT) is None
        [alert] = await store.records.alerts(AlertFilter())
        assert (alert.kind, alert.target) == (AlertKind.SUBMISSION_CONFLICT, "queue:orders")

    async def test_who_cannot_be_told_makes_the_message_stay(
        self, store: Store, clock: ManualClock, post: Mail
    ) -> None:
        await post.send()
        message = await post.one()

        with pytest.raises(InvalidInput, match="there is no queue 'nobodys'"):
            await store.accept(
                lock_of(message), giving(new_task("t", reply_to="queue:nobodys")), now=clock.now()
            )

        assert await post.counts() == {"locked": 1}

    async def test_of_two_who_accept_one_delivery_at_once_one_does(
        self, store: Store, clock: ManualClock, post: Mail
    ) -> None:
        await post.send()
        message = await post.one()
        racing = [
            store.accept(lock_of(message), giving(new_task(f"t{number}")), now=clock.now())
            for number in range(4)
        ]

        answers = await asyncio.gather(*racing, return_exceptions=True)

        assert sorted(type(answer).__name__ for answer in answers) == ["LockLost"] * 3 + ["Submitted"]
        assert len(await store.outcomes([f"t{number}" for number in range(4)])) == 1

    async def test_many_at_once_are_all_accepted(self, store: Store, clock: ManualClock, post: Mail) -> None:
        for _ in range(20):
            await post.send()
        racing = [
            store.accept(lock_of(message), giving(new_task(message.id)), now=clock.now())
            for message in await post.receive()
        ]

        answers = await asyncio.gather(*racing)

        assert all(answer.created for answer in answers)
        assert await post.counts() == {}

    async def test_a_settlement_that_comes_to_nothing_raises_no_alert(
        self, store: Store, clock: ManualClock, post: Mail
    ) -> None:
        await post.send()
        message = await post.one()
        clock.pass_time(LOCK + SECOND)

        refused = await post.settle(message, Action.DEAD_LETTER, reason="no", alert=ALERT)

        assert isinstance(refused, LockLost)
        assert await store.records.alerts(AlertFilter()) == []
