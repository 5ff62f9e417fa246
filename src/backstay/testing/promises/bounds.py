"""A queue holds so many messages and no more; whoever looks after it can make room, or delete it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from backstay.domain.audit import Act
from backstay.domain.message import Action, NewMessage, Queue, Sent, Subscription
from backstay.errors import BackstayError, LockLost, QueueFull, QueueNotEmpty, UnknownMessage, UnknownQueue
from backstay.testing.clock import ManualClock
from backstay.testing.promises.mail import LOCK, MINUTE, SECOND, Mail, QueuePromises, ids

ACT = Act(who="me", action="delete", target="queue:orders")


async def refusal(send: Awaitable[Sent]) -> BackstayError | None:
    try:
        await send
    except BackstayError as error:
        return error
    return None


async def complete(mail: Mail) -> None:
    await mail.complete(await mail.one())


async def cancel(mail: Mail) -> None:
    [one] = [one for one in await mail.queues.peek("orders", limit=9) if one.state == "waiting"]
    await mail.queues.cancel("orders", one.sequence, now=mail.now)


async def take(mail: Mail) -> None:
    await mail.queues.take("orders", limit=1, now=mail.now)


async def expire(mail: Mail) -> None:
    mail.clock.pass_time(10 * MINUTE)
    await mail.receive()


async def discard(mail: Mail) -> None:
    await mail.settle(await mail.one(), Action.DEAD_LETTER, reason="no")
    assert isinstance(await refusal(mail.send("a dead letter is in it still")), QueueFull)
    await mail.queues.discard("orders", None, limit=9, act=ACT, now=mail.now)


async def purge(mail: Mail) -> None:
    await mail.queues.purge("orders", limit=1, act=ACT, now=mail.now)


class BoundPromises(QueuePromises):
    # Full

    async def test_a_full_queue_refuses_and_keeps_what_it_has(self, mail: Mail) -> None:
        """SB-13."""
        await mail.declare(max_messages=3)
        answers = await mail.queues.send([mail.new(number) for number in range(5)], now=mail.now)
        assert [type(answer) for answer in answers] == [Sent, Sent, Sent, QueueFull, QueueFull]

        with pytest.raises(QueueFull, match="3 messages may be in it") as refused:
            await mail.send("one more")

        assert (refused.value.queue, refused.value.retry_after) == ("orders", SECOND)
        assert await mail.bodies() == [0, 1, 2]

    @pytest.mark.parametrize("remove", [complete, cancel, take, expire, discard, purge])
    async def test_there_is_room_again_when_something_left(
        self, mail: Mail, remove: Callable[[Mail], Awaitable[None]]
    ) -> None:
        await mail.declare(max_messages=2)
        await mail.send("now", ttl=5 * MINUTE if remove is expire else None)
        await mail.send("later", at=mail.now + MINUTE)
        assert isinstance(await refusal(mail.send("too many")), QueueFull)

        await remove(mail)

        await mail.send("room")
        assert isinstance(await refusal(mail.send("too many")), QueueFull)

    async def test_whatever_state_a_message_is_in_it_takes_its_room(self, mail: Mail) -> None:
        await mail.declare(max_messages=4)
        for body in ("dead", "deferred", "locked"):
            await mail.send(body)
        dead, deferred, _locked = await mail.receive()
        await mail.settle(dead, Action.DEAD_LETTER, reason="no")
        await mail.settle(deferred, Action.DEFER)
        await mail.send("later", at=mail.now + MINUTE)

        assert isinstance(await refusal(mail.send("too many")), QueueFull)

    async def test_what_was_sent_before_is_answered_though_the_queue_is_full(self, mail: Mail) -> None:
        """IC-3: whoever tries again learns that it was sent, not that there is no room."""
        await mail.declare(max_messages=1)
        first = await mail.send("a", id="m1")

        answers = await mail.queues.send([mail.new("a", id="m1"), mail.new("b", id="m2")], now=mail.now)

        assert answers[0] == Sent(id="m1", sequence=first.sequence, duplicate=True)
        assert isinstance(answers[1], QueueFull)
        await complete(mail)
        assert not (await mail.send("b", id="m2")).duplicate  # What was refused is not remembered.

    async def test_two_of_the_same_id_find_the_same_answer(self, mail: Mail) -> None:
        await mail.declare(max_messages=1)
        same = [mail.new("a", id="m1"), mail.new("b", id="m2"), mail.new("b", id="m2")]

        sent, *refused = await mail.queues.send(same, now=mail.now)

        assert isinstance(sent, Sent)
        assert [type(answer) for answer in refused] == [QueueFull, QueueFull]

    async def test_many_who_send_at_once_do_not_exceed_it(self, mail: Mail) -> None:
        await mail.declare(max_messages=10)

        refused = await asyncio.gather(*(refusal(mail.send(number)) for number in range(50)))

        assert sum(error is None for error in refused) == 10
        assert await mail.counts() == {"ready": 10}

    async def test_other_terms_count_at_once(self, mail: Mail) -> None:
        await mail.declare(max_messages=1)
        await mail.send("a")
        await mail.declare(max_messages=2)

        await mail.send("b")

        assert isinstance(await refusal(mail.send("c")), QueueFull)

    # Topics

    async def test_what_one_subscription_has_no_room_for_goes_to_none(self, mail: Mail) -> None:
        await self._bounded_topic(mail, roomy=10, tight=1)
        await mail.send("a", to="prices", topic=True)

        with pytest.raises(QueueFull, match="prices:tight"):
            await mail.send("b", to="prices", topic=True)

        assert await mail.counts("prices:roomy") == {"ready": 1}

    async def test_what_may_be_dropped_goes_to_those_who_have_room(self, mail: Mail) -> None:
        """A listener that is dead costs what may be in its queue, and costs the others nothing."""
        await self._bounded_topic(mail, roomy=10, tight=1)
        new: list[NewMessage] = [
            mail.new(number, to="prices", topic=True, droppable=True) for number in range(3)
        ]

        answers = await mail.queues.send(new, now=mail.now)

        assert all(isinstance(answer, Sent) and not answer.duplicate for answer in answers)
        assert await mail.bodies("prices:roomy") == [0, 1, 2]
        assert await mail.bodies("prices:tight") == [0]

    async def test_what_is_refused_takes_no_answer_from_another_of_the_same_id(self, mail: Mail) -> None:
        await self._bounded_topic(mail, roomy=10, tight=1)
        await mail.declare("prices:roomy", dedup=timedelta(0))
        await mail.send("full", to="prices:tight")
        same = [mail.new("a", id="m1", to="prices", topic=True), mail.new("b", id="m1", to="prices:roomy")]

        refused, sent = await mail.queues.send(same, now=mail.now)

        assert isinstance(refused, QueueFull)
        assert isinstance(sent, Sent)
        assert (sent.sequence > 0, sent.duplicate) == (True, False)
        assert await mail.bodies("prices:roomy") == ["b"]

    # Deleted

    async def test_an_empty_queue_can_be_deleted(self, mail: Mail) -> None:
        await mail.send("a", id="m1")
        await complete(mail)

        assert await mail.queues.delete("orders", most=0, act=ACT, now=mail.now) == 0

        with pytest.raises(UnknownQueue):
            await mail.receive()
        with pytest.raises(UnknownQueue):
            await mail.send("b")
        await mail.declare()
        assert not (await mail.send("a", id="m1")).duplicate  # A new queue knows nothing of the old one.

    @pytest.mark.parametrize("state", ["ready", "behind", "waiting", "locked", "deferred", "dead"])
    async def test_a_queue_that_is_not_empty_is_not_deleted(self, mail: Mail, state: str) -> None:
        await self._in_state(mail, state)

        with pytest.raises(QueueNotEmpty, match="orders"):
            await mail.queues.delete("orders", most=0, act=ACT, now=mail.now)

        assert state in await mail.counts()

    @pytest.mark.parametrize("state", ["ready", "behind", "waiting", "locked", "deferred", "dead"])
    async def test_a_queue_can_be_deleted_with_what_is_in_it(self, mail: Mail, state: str) -> None:
        await self._in_state(mail, state)
        await mail.declare("others")
        await mail.send("a", to="others")

        assert await mail.queues.delete("orders", most=2, act=ACT, now=mail.now) > 0

        await mail.declare()
        assert await mail.counts() == {}
        assert await mail.counts("others") == {"ready": 1}

    async def test_whoever_holds_a_message_of_a_queue_that_was_deleted_learns_of_it(self, mail: Mail) -> None:
        await mail.send("a")
        message = await mail.one()
        await mail.queues.delete("orders", most=1, act=ACT, now=mail.now)
        await mail.declare()

        [answer] = await mail.complete(message)

        assert isinstance(answer, LockLost)

    async def test_a_subscription_goes_with_its_queue(self, mail: Mail) -> None:
        await self._bounded_topic(mail, one=10, two=10)

        await mail.queues.delete("prices:one", most=0, act=ACT, now=mail.now)
        await mail.send("a", to="prices", topic=True)

        assert [one.name for one in (await mail.queues.topics())["prices"]] == ["two"]
        assert await mail.bodies("prices:two") == ["a"]

    async def test_a_queue_is_emptied_a_few_at_a_time_and_sessions_go_on(self, mail: Mail) -> None:
        for body in ("a1", "a2", "a3"):
            await mail.send(body, session="a")

        assert await mail.queues.purge("orders", limit=1, act=ACT, now=mail.now) == 1
        assert await mail.bodies() == ["a2"]
        assert await mail.queues.purge("orders", limit=9, act=ACT, now=mail.now) == 2
        assert await mail.counts() == {}

    async def test_nobody_deletes_what_others_are_sending_without_telling_them(self, mail: Mail) -> None:
        """Each send either came before, and was dropped with the queue, or is told that there is none."""

        async def delete() -> int:
            await asyncio.sleep(0)
            return await mail.queues.delete("orders", most=100, act=ACT, now=mail.now)

        dropped, *refused = await asyncio.gather(delete(), *(refusal(mail.send(n)) for n in range(30)))

        assert dropped == sum(error is None for error in refused)
        assert {type(error) for error in refused} <= {type(None), UnknownQueue}
        await mail.declare()
        assert await mail.counts() == {}

    # Dead letters that nobody wants

    async def test_dead_letters_can_be_dropped_for_good(self, mail: Mail) -> None:
        for number in range(3):
            await mail.send(number, id=f"m{number}")
        for message in await mail.receive():
            await mail.settle(message, Action.DEAD_LETTER, reason="no")

        assert await mail.queues.discard("orders", ["m1"], limit=9, act=ACT, now=mail.now) == 1
        assert ids(await mail.dead()) == ["m0", "m2"]
        with pytest.raises(UnknownMessage, match="m1"):
            await mail.queues.discard("orders", ["m1"], limit=9, act=ACT, now=mail.now)
        assert await mail.queues.discard("orders", None, limit=9, act=ACT, now=mail.now) == 2
        assert await mail.dead() == []

    # Looking

    async def test_levels_tell_how_many_of_each_priority_are_ready_and_since_when(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """PQ-4, QL-2."""
        begun = clock.now()
        await mail.send("low", priority=-1)
        clock.pass_time(SECOND)
        await mail.send("high", priority=1)
        await mail.send("high", priority=1)
        await mail.send("later", at=clock.now() + LOCK)

        levels = await mail.queues.levels(limit=9, counted=9)

        assert [(one.queue, one.priority, one.ready, one.oldest) for one in levels] == [
            ("orders", -1, 1, begun),
            ("orders", 1, 2, clock.now()),
        ]

    async def test_sessions_tell_how_much_waits_in_each(self, mail: Mail, clock: ManualClock) -> None:
        """SC-6."""
        begun = clock.now()
        for session in ("a", "b", "a", "c"):
            await mail.send(session, session=session)
        await mail.send("free")
        await mail.one()

        page = await mail.queues.sessions("orders", limit=2, counted=100)
        rest = await mail.queues.sessions("orders", after=page[-1].session, limit=2, counted=100)

        found = [(one.session, one.messages, one.locked, one.oldest) for one in page + rest]
        assert found == [("a", 2, 1, begun), ("b", 1, 0, begun), ("c", 1, 0, begun)]

    # Underneath

    async def _bounded_topic(self, mail: Mail, **subscriptions: int) -> None:
        await mail.queues.declare_topic("prices", now=mail.now)
        for name, most in subscriptions.items():
            one = Subscription(topic="prices", name=name)
            await mail.queues.subscribe(one, Queue(name=one.queue, max_messages=most), now=mail.now)

    async def _in_state(self, mail: Mail, state: str) -> None:
        """A message in this state, and one more where another has to be before it."""
        if state == "behind":
            await mail.send("first", session="s")
        await mail.send(
            "a",
            session="s" if state == "behind" else None,
            at=mail.now + MINUTE if state == "waiting" else None,
        )
        if state in ("locked", "deferred", "dead"):
            message = await mail.one()
            if state != "locked":
                action = Action.DEFER if state == "deferred" else Action.DEAD_LETTER
                await mail.settle(message, action, reason="no")
