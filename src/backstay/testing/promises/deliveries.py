"""A message belongs to one receiver at a time, until it is settled or its lock runs out."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from backstay.domain.message import EXPIRED, RECEIVE_BYTES_MAX, TOO_MANY_DELIVERIES, Action, Lock
from backstay.errors import LockLost, UnknownQueue
from backstay.testing.clock import ManualClock
from backstay.testing.promises.mail import LOCK, SECOND, Mail, QueuePromises, body_of, ids, lock_of


class DeliveryPromises(QueuePromises):
    # Locks

    async def test_what_is_received_is_what_was_sent(self, mail: Mail, clock: ManualClock) -> None:
        sent = await mail.send({"item": 7}, id="m1", properties={"kind": "book", "heavy": True}, priority=3)

        message = await mail.one()

        assert message.id == sent.id == "m1"
        assert message.sequence == sent.sequence > 0
        assert body_of(message) == {"item": 7}
        assert message.properties == {"kind": "book", "heavy": True}
        assert (message.priority, message.delivery_count) == (3, 1)
        assert message.enqueued_at == clock.now()
        assert message.visible_at == clock.now() + LOCK

    async def test_a_locked_message_is_invisible_to_others(self, mail: Mail) -> None:
        """SB-01."""
        await mail.send("a")

        await mail.one()

        assert await mail.receive() == []
        assert await mail.counts() == {"locked": 1}

    async def test_a_completed_message_is_gone(self, mail: Mail, clock: ManualClock) -> None:
        await mail.send("a")

        assert await mail.complete(await mail.one()) == [None]

        clock.pass_time(2 * LOCK)
        assert await mail.receive() == []
        assert await mail.counts() == {}

    async def test_a_lock_that_ran_out_lets_another_in_and_shuts_the_first_out(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SB-04, CC-6, SQ-02."""
        await mail.send("a")
        first = await mail.one()

        clock.pass_time(LOCK)
        second = await mail.one()

        assert second.id == first.id
        assert second.delivery_count == 2
        assert second.lock_token != first.lock_token
        assert isinstance(await mail.abandon(first), LockLost)
        assert isinstance(await mail.settle(first, Action.DEAD_LETTER, reason="no"), LockLost)
        assert isinstance(await mail.renew(first), LockLost)
        [refused] = await mail.complete(first)
        assert isinstance(refused, LockLost)
        assert await mail.complete(second) == [None]

    async def test_a_lock_is_lost_at_its_very_end_though_nobody_else_came(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        await mail.send("a")
        message = await mail.one()

        clock.pass_time(LOCK)

        [refused] = await mail.complete(message)
        assert isinstance(refused, LockLost)
        assert "m" in str(refused)

    async def test_a_message_is_settled_once(self, mail: Mail) -> None:
        await mail.send("a")
        message = await mail.one()

        answers = await mail.complete(message, message)

        assert sorted(map(str, map(type, answers))) == sorted(map(str, [type(None), LockLost]))
        [again] = await mail.complete(message)
        assert isinstance(again, LockLost)

    async def test_a_token_speaks_for_its_own_message_only(self, mail: Mail) -> None:
        await mail.declare("others")
        await mail.send("a", id="a")
        await mail.send("b", id="b")
        a, b = await mail.receive()
        wrong = [
            Lock("orders", "a", str(b.lock_token)),
            Lock("others", "a", str(a.lock_token)),
            Lock("orders", "a", "nonsense"),
            Lock("orders", "a", f"{a.sequence}.guess"),
            Lock("orders", "a", ""),
        ]

        answers = await mail.queues.renew(wrong, now=mail.now)

        assert all(isinstance(answer, LockLost) for answer in answers)

    async def test_some_of_a_batch_may_be_refused_and_the_others_are_settled(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SB-04."""
        await mail.send("late")
        late = await mail.one()
        clock.pass_time(LOCK)
        await mail.send("good")
        [_, good] = await mail.receive()

        answers = await mail.complete(late, good)

        assert isinstance(answers[0], LockLost)
        assert answers[1] is None

    async def test_a_renewed_lock_holds_for_its_whole_time_again(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SB-02."""
        await mail.send("a")
        message = await mail.one()
        clock.pass_time(LOCK - SECOND)

        assert await mail.renew(message) == clock.now() + LOCK

        clock.pass_time(LOCK - SECOND)
        assert await mail.receive() == []
        assert await mail.complete(message) == [None]

    # Failure

    async def test_an_abandoned_message_is_received_again_and_counted(self, mail: Mail) -> None:
        """SB-05."""
        await mail.send("a")

        assert await mail.abandon(await mail.one()) is None

        assert (await mail.one()).delivery_count == 2

    async def test_a_released_message_is_received_again_and_not_counted(self, mail: Mail) -> None:
        """SB-05, SQ-06."""
        await mail.send("a")

        assert await mail.settle(await mail.one(), Action.RELEASE) is None

        assert (await mail.one()).delivery_count == 1

    async def test_an_abandoned_message_may_have_to_wait(self, mail: Mail, clock: ManualClock) -> None:
        await mail.send("a")
        await mail.abandon(await mail.one(), delay=5 * SECOND)

        assert await mail.receive() == []
        assert await mail.counts() == {"waiting": 1}
        clock.pass_time(5 * SECOND)
        assert (await mail.one()).delivery_count == 2

    @pytest.mark.parametrize("how", ["abandon", "lock"])
    async def test_a_message_is_set_aside_after_its_last_delivery(
        self, mail: Mail, clock: ManualClock, how: str
    ) -> None:
        """SQ-04, CC-3, SB-05."""
        await mail.declare("orders", max_deliveries=3)
        await mail.send({"item": 7}, id="poison", properties={"kind": "book"})
        for count in (1, 2, 3):
            message = await mail.one()
            assert message.delivery_count == count
            if how == "abandon":
                await mail.abandon(message, detail="it broke")
            else:
                clock.pass_time(LOCK)

        assert await mail.receive() == []

        [dead] = await mail.dead()
        assert (dead.id, dead.reason, dead.delivery_count) == ("poison", TOO_MANY_DELIVERIES, 3)
        assert dead.detail == ("it broke" if how == "abandon" else "the lock ran out")
        assert dead.dead_at == clock.now()
        assert (body_of(dead), dead.properties) == ({"item": 7}, {"kind": "book"})

    async def test_a_message_set_aside_by_hand_keeps_the_reason(self, mail: Mail, clock: ManualClock) -> None:
        """SB-01."""
        await mail.send("a")

        await mail.settle(await mail.one(), Action.DEAD_LETTER, reason="bad address", detail="no such street")

        [dead] = await mail.dead()
        assert (dead.reason, dead.detail) == ("bad address", "no such street")
        clock.pass_time(2 * LOCK)
        assert await mail.receive() == []

    @pytest.mark.parametrize("delay", [0, 5])
    async def test_a_message_that_keeps_failing_does_not_keep_others_of_its_priority_waiting(
        self, mail: Mail, clock: ManualClock, delay: int
    ) -> None:
        """PQ-5: it is set aside after a few times; with a delay it lets the others pass at once."""
        await mail.declare("orders", max_deliveries=3)
        await mail.send("poison", priority=5)
        await mail.send("good", priority=5)
        await mail.send("less urgent")
        seen = []
        while messages := await mail.receive(limit=1):
            [message] = messages
            seen.append(body_of(message))
            if body_of(message) == "poison":
                await mail.abandon(message, delay=delay * SECOND)
            else:
                await mail.complete(message)

        if delay:
            assert seen == ["poison", "good", "less urgent"]
        else:
            assert seen == ["poison", "poison", "poison", "good", "less urgent"]

    # Time to live

    @pytest.mark.parametrize("keep", [True, False])
    async def test_an_expired_message_is_dropped_or_set_aside_as_its_queue_says(
        self, mail: Mail, clock: ManualClock, keep: bool
    ) -> None:
        """SB-07."""
        await mail.declare("orders", ttl=10 * SECOND, dead_letter_expired=keep)
        await mail.send("by the queue")
        await mail.send("by itself", ttl=5 * SECOND)
        await mail.send("no longer than the queue's", ttl=60 * SECOND)

        clock.pass_time(5 * SECOND)
        assert await mail.bodies() == ["by the queue", "no longer than the queue's"]
        clock.pass_time(LOCK)
        assert await mail.receive() == []

        dead = await mail.dead()
        assert {message.reason for message in dead} == ({EXPIRED} if keep else set())
        assert len(dead) == (3 if keep else 0)
        assert await mail.counts() == ({"dead": 3} if keep else {})

    async def test_what_expires_while_somebody_works_on_it_may_be_completed(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        await mail.send("a", ttl=SECOND)
        message = await mail.one()

        clock.pass_time(2 * SECOND)
        await mail.receive()

        assert await mail.complete(message) == [None]

    # Dead letters

    async def test_a_dead_letter_neither_expires_nor_comes_back_by_itself(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SB-06."""
        await mail.declare("orders", ttl=SECOND)
        await mail.send("a")
        await mail.settle(await mail.one(), Action.DEAD_LETTER, reason="no")

        clock.pass_time(timedelta(days=30))

        assert await mail.receive() == []
        assert len(await mail.dead()) == 1

    async def test_receivers_at_the_same_time_share_the_messages(self, mail: Mail) -> None:
        """CC-1."""
        await mail.queues.send([mail.new(number) for number in range(100)], now=mail.now)

        shares = await asyncio.gather(*(mail.receive(limit=7) for _ in range(20)))

        counted = Counter(message.id for share in shares for message in share)
        assert len(counted) == 100
        assert set(counted.values()) == {1}
        assert all(len(share) <= 7 for share in shares)

    async def test_no_more_is_received_at_once_than_can_be_held(self, mail: Mail) -> None:
        """SQ-01."""
        body = "x" * (RECEIVE_BYTES_MAX // 4)
        for _ in range(6):
            await mail.send(body)

        shares = [len(await mail.receive(limit=100)) for _ in range(3)]

        assert shares == [4, 2, 0]

    async def test_many_who_complete_at_the_same_time_are_each_answered(self, mail: Mail) -> None:
        await mail.queues.send([mail.new(number) for number in range(60)], now=mail.now)
        messages = await mail.receive()

        answers = await asyncio.gather(*(mail.complete(message) for message in messages))

        assert answers == [[None]] * 60
        assert await mail.counts() == {}

    async def test_many_completed_and_dead_messages_are_in_nobodys_way(self, mail: Mail) -> None:
        await mail.queues.send([mail.new(number) for number in range(300)], now=mail.now)
        messages = await mail.receive()
        await mail.complete(*messages[:150])
        for message in messages[150:]:
            await mail.settle(message, Action.DEAD_LETTER, reason="no")
        await mail.send("last")

        assert await mail.bodies() == ["last"]

    async def test_an_unknown_queue_is_an_error(self, mail: Mail) -> None:
        with pytest.raises(UnknownQueue):
            await mail.receive("nowhere")
        with pytest.raises(UnknownQueue):
            await mail.queues.has_ready("nowhere", now=mail.now)
        with pytest.raises(UnknownQueue):
            await mail.queues.peek("nowhere", limit=1)

    async def test_a_look_tells_whether_a_receive_would_find_something(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        async def found() -> bool:
            return await mail.queues.has_ready("orders", now=mail.now)

        assert not await found()
        await mail.send("a")
        assert await found()
        message = await mail.one()
        assert not await found()
        clock.pass_time(LOCK)
        assert await found()
        assert ids(await mail.receive()) == [message.id]

    async def test_a_peek_shows_what_comes_next_and_touches_nothing(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SQ-05."""
        await mail.send("locked")
        await mail.one()
        await mail.send("later", at=clock.now() + LOCK)
        await mail.send("low", priority=-1)
        await mail.send("high", priority=1)

        seen = await mail.queues.peek("orders", limit=10)

        assert [body_of(one) for one in seen] == ["high", "low", "locked", "later"]
        assert await mail.bodies() == ["high", "low"]
        assert len(await mail.queues.peek("orders", limit=2)) == 2

    async def test_locks_are_kept_for_many_at_once(self, mail: Mail, clock: ManualClock) -> None:
        await mail.queues.send([mail.new(number) for number in range(50)], now=mail.now)
        messages = await mail.receive()
        clock.pass_time(LOCK / 2)

        until = await mail.queues.renew([lock_of(one) for one in messages], now=mail.now)

        assert until == [clock.now() + LOCK] * 50
