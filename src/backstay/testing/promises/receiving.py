"""Other ways to receive: at most once, by a number, and with something else in the message."""

from __future__ import annotations

import asyncio

import pytest

from backstay.domain.message import RECEIVE_BYTES_MAX, TOO_MANY_DELIVERIES, Action, MessageRecord
from backstay.errors import LockLost, UnknownQueue
from backstay.testing.clock import ManualClock
from backstay.testing.promises.mail import LOCK, SECOND, Mail, QueuePromises, body_of, ids, lock_of


async def deferred(mail: Mail, *numbers: int) -> list[MessageRecord]:
    return await mail.queues.receive_deferred("orders", numbers, secret=f"again-{mail.now}", now=mail.now)


async def put_off(mail: Mail) -> MessageRecord:
    """Receive a message and defer it."""
    message = await mail.one()
    assert await mail.settle(message, Action.DEFER) is None
    return message


class ReceivingPromises(QueuePromises):
    # At most once

    async def test_what_is_received_at_most_once_is_gone(self, mail: Mail, clock: ManualClock) -> None:
        """SB-01."""
        for body in ("a", "b", "c"):
            await mail.send(body)

        taken = await mail.queues.take("orders", limit=2, now=mail.now)

        assert [(body_of(one), one.delivery_count, one.lock_token) for one in taken] == [
            ("a", 1, None),
            ("b", 1, None),
        ]
        clock.pass_time(2 * LOCK)
        assert await mail.bodies() == ["c"]
        assert await mail.counts() == {"locked": 1}

    async def test_what_is_received_at_most_once_lets_its_session_go_on(self, mail: Mail) -> None:
        await mail.send("a1", session="a")
        await mail.send("a2", session="a")

        for body in ("a1", "a2"):
            [taken] = await mail.queues.take("orders", limit=9, now=mail.now)
            assert body_of(taken) == body

    async def test_receivers_at_most_once_share_the_messages_too(self, mail: Mail) -> None:
        await mail.queues.send([mail.new(number) for number in range(60)], now=mail.now)

        shares = await asyncio.gather(*(mail.queues.take("orders", limit=5, now=mail.now) for _ in range(12)))

        assert sorted(body_of(one) for share in shares for one in share) == [*range(60)]

    async def test_no_more_is_taken_at_once_than_can_be_held(self, mail: Mail) -> None:
        for _ in range(3):
            await mail.send("x" * (RECEIVE_BYTES_MAX // 2))

        assert len(await mail.queues.take("orders", limit=100, now=mail.now)) == 2

    # Deferred

    async def test_a_deferred_message_is_received_by_its_number_only(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SB-01."""
        sent = await mail.send("a", id="m1", properties={"n": 1})
        await mail.send("b")
        await put_off(mail)

        clock.pass_time(2 * LOCK)
        assert await mail.bodies() == ["b"]
        assert (await mail.counts())["deferred"] == 1
        [again] = await deferred(mail, sent.sequence)

        assert (again.id, again.sequence, again.properties) == ("m1", sent.sequence, {"n": 1})
        assert (again.delivery_count, again.visible_at) == (2, clock.now() + LOCK)
        assert await deferred(mail, sent.sequence) == []
        assert await mail.complete(again) == [None]

    async def test_a_deferred_message_does_not_expire(self, mail: Mail, clock: ManualClock) -> None:
        """SB-07."""
        await mail.declare(ttl=SECOND)
        await mail.send("a")
        message = await put_off(mail)

        clock.pass_time(10 * LOCK)
        assert await mail.receive() == []

        assert ids(await deferred(mail, message.sequence)) == [message.id]

    @pytest.mark.parametrize("how", ["abandon", "abandon and wait", "release", "lock"])
    async def test_a_deferred_message_that_is_not_done_is_deferred_again(
        self, mail: Mail, clock: ManualClock, how: str
    ) -> None:
        await mail.send("a")
        number = (await put_off(mail)).sequence
        [again] = await deferred(mail, number)
        match how:
            case "abandon":
                await mail.abandon(again)
            case "abandon and wait":
                await mail.abandon(again, delay=SECOND)
            case "release":
                await mail.settle(again, Action.RELEASE)
            case _:
                clock.pass_time(LOCK)

        assert await mail.receive() == []
        assert await mail.counts() == {"deferred": 1}
        [once_more] = await deferred(mail, number)
        assert once_more.delivery_count == (2 if how == "release" else 3)

    @pytest.mark.parametrize("how", ["abandon", "lock"])
    async def test_a_deferred_message_is_set_aside_after_its_last_delivery(
        self, mail: Mail, clock: ManualClock, how: str
    ) -> None:
        await mail.declare(max_deliveries=2)
        await mail.send("a")
        [again] = await deferred(mail, (await put_off(mail)).sequence)

        if how == "abandon":
            await mail.abandon(again)
        else:
            clock.pass_time(LOCK)
            assert await deferred(mail, again.sequence) == []

        assert [one.reason for one in await mail.dead()] == [TOO_MANY_DELIVERIES]

    async def test_a_deferred_message_lets_its_session_go_on(self, mail: Mail) -> None:
        await mail.send("a1", session="a")
        await mail.send("a2", session="a")
        await mail.send("a3", session="a")
        number = (await put_off(mail)).sequence

        second = await mail.one()
        [first] = await deferred(mail, number)
        assert [body_of(second), body_of(first)] == ["a2", "a1"]
        await mail.complete(second)
        assert await mail.receive() == []  # One of its session is at work.
        await mail.complete(first)
        assert await mail.bodies() == ["a3"]

    async def test_deferring_needs_the_lock(self, mail: Mail, clock: ManualClock) -> None:
        await mail.send("a")
        message = await mail.one()
        clock.pass_time(LOCK)

        assert isinstance(await mail.settle(message, Action.DEFER), LockLost)

        assert await mail.bodies() == ["a"]

    async def test_only_what_is_deferred_in_this_queue_is_found(self, mail: Mail) -> None:
        await mail.declare("others")
        elsewhere = await mail.send("other", to="others")
        await mail.settle(await mail.one("others"), Action.DEFER)
        ready = await mail.send("ready")

        assert await deferred(mail, elsewhere.sequence, ready.sequence, 2**62) == []
        with pytest.raises(UnknownQueue):
            await mail.queues.receive_deferred("nowhere", [1], secret=str(mail.now), now=mail.now)

    async def test_several_are_received_in_the_order_of_their_numbers(self, mail: Mail) -> None:
        for number in range(3):
            await mail.send(number)
        for message in await mail.receive():
            await mail.settle(message, Action.DEFER)
        numbers = [one.sequence for one in await mail.queues.peek("orders", limit=9)]

        found = await deferred(mail, *reversed(numbers))

        assert [body_of(one) for one in found] == [0, 1, 2]

    # Rewritten

    async def test_whoever_holds_a_message_may_write_into_it_and_so_keeps_it(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SQ-03: whoever receives it next goes on where the first one stood."""
        await mail.send({"done": 0})
        message = await mail.one()
        clock.pass_time(LOCK - SECOND)

        until = await mail.queues.rewrite(lock_of(message), b'{"done":7}', now=mail.now)

        assert until == clock.now() + LOCK
        clock.pass_time(LOCK - SECOND)
        assert await mail.receive() == []
        clock.pass_time(SECOND)
        again = await mail.one()
        assert (body_of(again), again.id, again.delivery_count) == ({"done": 7}, message.id, 2)

    async def test_nobody_writes_into_a_message_whose_lock_was_lost(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SQ-02, SQ-03."""
        await mail.send("a")
        first = await mail.one()
        clock.pass_time(LOCK)
        second = await mail.one()
        tokens = ["nonsense", f"{second.sequence}.guess", str(first.lock_token)]

        answers = [
            await mail.queues.rewrite(lock_of(second, token=token), b'"b"', now=mail.now) for token in tokens
        ]

        assert all(isinstance(answer, LockLost) for answer in answers)
        await mail.abandon(second)
        assert await mail.bodies() == ["a"]
