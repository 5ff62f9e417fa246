"""What was sent is there, once, and comes out in its order."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from backstay.domain.audit import Act
from backstay.domain.message import Action, Queue, Sent, Subscription
from backstay.errors import InvalidInput, UnknownMessage, UnknownQueue
from backstay.testing.clock import ManualClock
from backstay.testing.promises.mail import LOCK, MINUTE, SECOND, Mail, QueuePromises, body_of, ids

WINDOW = timedelta(minutes=10)
ACT = Act(who="me", action="resubmit", target="queue:orders")


class MailingPromises(QueuePromises):
    # Order

    async def test_messages_come_out_in_the_order_in_which_they_were_sent(self, mail: Mail) -> None:
        """SB-12, SC-4, SQ-01."""
        first = await mail.send("a")
        await mail.queues.send([mail.new("b"), mail.new("c")], now=mail.now)
        last = await mail.send("d")

        assert await mail.bodies(limit=2) == ["a", "b"]
        assert await mail.bodies() == ["c", "d"]
        assert first.sequence < last.sequence

    async def test_the_more_urgent_comes_first(self, mail: Mail) -> None:
        """PQ-2."""
        await mail.send("low", priority=-10)
        await mail.send("usual")
        await mail.send("high", priority=10)

        assert await mail.bodies() == ["high", "usual", "low"]

    async def test_what_has_waited_long_enough_comes_before_what_is_more_urgent(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """PQ-3."""
        await mail.send("old and low", priority=0)
        clock.pass_time(3 * MINUTE + SECOND)
        await mail.send("new and a little higher", priority=3)
        await mail.send("new and much higher", priority=4)

        assert await mail.bodies() == ["new and much higher", "old and low", "new and a little higher"]

    async def test_an_abandoned_message_keeps_its_place(self, mail: Mail) -> None:
        await mail.send("a")
        await mail.send("b")
        await mail.abandon(await mail.one())

        assert await mail.bodies() == ["a", "b"]

    # Later

    async def test_a_scheduled_message_is_received_when_its_time_has_come(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SB-08, SQ-05."""
        at = clock.now() + MINUTE
        await mail.send("later", at=at)
        await mail.send("now")

        assert await mail.bodies() == ["now"]
        assert await mail.counts() == {"waiting": 1, "locked": 1}
        clock.pass_time(MINUTE)
        [message] = await mail.receive(limit=1)
        assert body_of(message) == "now"  # Its lock ran out, and it came before.
        [message] = await mail.receive()
        assert (body_of(message), message.enqueued_at) == ("later", at)

    async def test_a_scheduled_message_lives_from_its_time_on(self, mail: Mail, clock: ManualClock) -> None:
        await mail.send("later", at=clock.now() + MINUTE, ttl=SECOND)

        clock.pass_time(MINUTE)

        assert await mail.bodies() == ["later"]

    async def test_a_scheduled_message_can_be_taken_back_until_its_time(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SB-08."""
        first = await mail.send("later", at=clock.now() + MINUTE)
        second = await mail.send("later", at=clock.now() + MINUTE)

        assert await mail.queues.cancel("orders", first.sequence, now=mail.now)
        assert not await mail.queues.cancel("orders", first.sequence, now=mail.now)
        clock.pass_time(MINUTE)
        assert not await mail.queues.cancel("orders", second.sequence, now=mail.now)
        assert len(await mail.receive()) == 1

    async def test_an_instant_that_has_passed_means_now(self, mail: Mail, clock: ManualClock) -> None:
        await mail.send("a", at=clock.now() - MINUTE)

        [message] = await mail.receive()

        assert message.enqueued_at == clock.now()

    # Once

    async def test_the_same_id_within_the_window_is_the_same_message(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SB-09."""
        await mail.declare("orders", dedup=WINDOW)
        first = await mail.send("a", id="m1")
        clock.pass_time(WINDOW - SECOND)

        again = await mail.send("b", id="m1")

        assert again == Sent(id="m1", sequence=first.sequence, duplicate=True)
        assert await mail.bodies() == ["a"]

    async def test_it_stays_the_same_after_it_was_completed(self, mail: Mail) -> None:
        """IC-3."""
        await mail.send("a", id="m1")
        await mail.complete(await mail.one())

        assert (await mail.send("a", id="m1")).duplicate
        assert await mail.receive() == []

    async def test_after_the_window_the_id_is_free(self, mail: Mail, clock: ManualClock) -> None:
        await mail.declare("orders", dedup=WINDOW)
        await mail.send("a", id="m1")
        clock.pass_time(WINDOW)

        assert not (await mail.send("b", id="m1")).duplicate

        assert await mail.bodies() == ["a", "b"]
        assert (await mail.send("c", id="m1")).duplicate

    async def test_without_a_window_ids_may_come_again(self, mail: Mail) -> None:
        await mail.declare("orders", dedup=timedelta(0))
        first = await mail.send("a", id="m1")
        [second, third] = await mail.queues.send(
            [mail.new("b", id="m1"), mail.new("c", id="m1")], now=mail.now
        )

        assert isinstance(second, Sent)
        assert isinstance(third, Sent)
        assert first.sequence < second.sequence < third.sequence
        assert await mail.bodies() == ["a", "b", "c"]

    async def test_a_scheduled_message_counts_as_sent(self, mail: Mail, clock: ManualClock) -> None:
        """SB-08."""
        first = await mail.send("later", id="m1", at=clock.now() + MINUTE)

        assert await mail.send("now", id="m1") == Sent(id="m1", sequence=first.sequence, duplicate=True)

    async def test_of_many_who_send_the_same_at_once_one_does(self, mail: Mail) -> None:
        answers = await asyncio.gather(*(mail.send(number, id="m1") for number in range(20)))

        assert len({answer.sequence for answer in answers}) == 1
        assert sum(not answer.duplicate for answer in answers) == 1
        assert len(await mail.receive()) == 1

    async def test_ids_are_known_per_queue(self, mail: Mail) -> None:
        await mail.declare("others")

        await mail.send("a", id="m1")

        assert not (await mail.send("a", id="m1", to="others")).duplicate

    async def test_one_that_is_refused_does_not_keep_the_others_back(self, mail: Mail) -> None:
        await mail.declare("strict", sessions=True)
        answers = await mail.queues.send(
            [mail.new("a"), mail.new("b", to="nowhere"), mail.new("c", to="strict"), mail.new("d")],
            now=mail.now,
        )

        assert [type(answer) for answer in answers] == [Sent, UnknownQueue, InvalidInput, Sent]
        assert await mail.bodies() == ["a", "d"]

    async def test_large_bodies_come_back_as_they_were(self, mail: Mail) -> None:
        text = "ä" * 400_000
        await mail.send(text)

        assert await mail.bodies() == [text]

    # Topics

    async def test_a_topic_copies_to_each_subscription_that_matches(self, mail: Mail) -> None:
        """CC-5, SB-11."""
        await self._topic(mail, all={}, eur={"currency": "EUR"}, big={"currency": "EUR", "large": True})

        sent = await mail.send("a", to="prices", topic=True, properties={"currency": "EUR", "large": False})

        assert await mail.bodies("prices:all") == ["a"]
        [copy] = await mail.receive("prices:eur")
        assert copy.sequence <= sent.sequence
        assert copy.properties == {"currency": "EUR", "large": False}
        assert await mail.receive("prices:big") == []

    async def test_each_subscription_settles_for_itself(self, mail: Mail) -> None:
        await self._topic(mail, one={}, two={})
        await mail.send("a", to="prices", topic=True)

        await mail.complete(await mail.one("prices:one"))

        assert await mail.bodies("prices:two") == ["a"]

    async def test_values_match_by_kind_as_well(self, mail: Mail) -> None:
        await self._topic(mail, number={"n": 1}, truth={"n": True}, text={"n": "1"})

        await mail.send("a", to="prices", topic=True, properties={"n": 1})

        assert await mail.counts("prices:number") == {"ready": 1}
        assert await mail.counts("prices:truth") == {}
        assert await mail.counts("prices:text") == {}

    async def test_a_topic_that_nobody_subscribed_to_drops_what_is_sent(self, mail: Mail) -> None:
        await self._topic(mail)

        assert await mail.send("a", to="prices", topic=True, id="m1") == Sent(id="m1", sequence=0)

    async def test_a_subscription_gets_what_is_sent_from_then_on(self, mail: Mail) -> None:
        await self._topic(mail)
        await mail.send("before", to="prices", topic=True)
        await self._subscribe(mail, "late", {})
        await mail.send("after", to="prices", topic=True)

        assert await mail.bodies("prices:late") == ["after"]

    async def test_a_subscription_may_change_its_mind(self, mail: Mail) -> None:
        await self._topic(mail, one={"n": 1})
        assert not await self._subscribe(mail, "one", {"n": 2})

        await mail.send("a", to="prices", topic=True, properties={"n": 2})

        assert await mail.bodies("prices:one") == ["a"]
        assert await mail.queues.topics() == {
            "prices": [Subscription(topic="prices", name="one", where={"n": 2})]
        }

    async def test_what_goes_to_a_topic_twice_arrives_once(self, mail: Mail) -> None:
        await self._topic(mail, one={}, two={})
        first = await mail.send("a", to="prices", topic=True, id="m1")

        again = await mail.send("a", to="prices", topic=True, id="m1")

        assert (again.sequence, again.duplicate) == (first.sequence, True)
        assert await mail.bodies("prices:one") == ["a"]

    async def test_an_unknown_topic_is_an_error(self, mail: Mail) -> None:
        with pytest.raises(UnknownQueue, match="topic"):
            await mail.send("a", to="prices", topic=True)
        with pytest.raises(UnknownQueue, match="topic"):
            await self._subscribe(mail, "one", {})

    # Queues, and those who look after them

    async def test_a_queue_declared_again_is_the_same_queue_with_other_terms(self, mail: Mail) -> None:
        queue = Queue(name="orders", lock=5 * SECOND, max_deliveries=2, ttl=LOCK, sessions=True)
        await mail.send("a")

        assert not await mail.queues.declare(queue, now=mail.now)
        assert await mail.queues.declare(Queue(name="others"), now=mail.now)

        others, orders = await mail.queues.standings(names=["others", "orders"], limit=9, counted=9)
        if others.queue.name == "orders":
            others, orders = orders, others
        assert orders.queue == queue
        assert orders.ready == 1
        message = await mail.one()
        assert message.visible_at == mail.now + 5 * SECOND

    async def test_queues_are_listed_by_their_names(self, mail: Mail) -> None:
        for name in ("b", "C", "a"):
            await mail.declare(name)

        page = await mail.queues.standings(limit=2, counted=1)
        rest = await mail.queues.standings(after=page[-1].queue.name, limit=9, counted=1)

        assert [one.queue.name for one in page + rest] == ["C", "a", "b", "orders"]

    async def test_counts_stop_where_nobody_asks_further(self, mail: Mail) -> None:
        await mail.queues.send([mail.new(number) for number in range(5)], now=mail.now)

        [standing] = await mail.queues.standings(names=["orders"], limit=1, counted=3)

        assert standing.ready == 3

    async def test_a_dead_letter_that_is_resubmitted_is_new_again(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """IC-3, IC-5, QL-5, SB-06."""
        await mail.send("a", id="m1", properties={"n": 1}, session="s")
        await mail.send("b", session="s")
        await mail.settle(await mail.one(), Action.DEAD_LETTER, reason="no")
        clock.pass_time(SECOND)

        [sequence] = await mail.queues.resubmit("orders", ["m1"], limit=10, act=ACT, now=mail.now)

        first = await mail.one()
        assert body_of(first) == "b"
        await mail.complete(first)
        message = await mail.one()
        assert (message.id, message.sequence, message.delivery_count) == ("m1", sequence, 1)
        assert (message.properties, message.enqueued_at) == ({"n": 1}, clock.now())
        assert await mail.dead() == []

    async def test_all_dead_letters_can_be_resubmitted_a_few_at_a_time(self, mail: Mail) -> None:
        for number in range(5):
            await mail.send(number)
        for message in await mail.receive():
            await mail.settle(message, Action.DEAD_LETTER, reason="no")
        page = await mail.queues.dead("orders", limit=2)
        rest = await mail.queues.dead("orders", after=page[-1].sequence, limit=9)
        assert len(ids(page + rest)) == 5

        first = await mail.queues.resubmit("orders", None, limit=3, act=ACT, now=mail.now)
        second = await mail.queues.resubmit("orders", None, limit=3, act=ACT, now=mail.now)

        assert (len(first), len(second)) == (3, 2)
        assert await mail.bodies() == [0, 1, 2, 3, 4]

    async def test_a_dead_letter_that_is_not_there_is_an_error(self, mail: Mail) -> None:
        with pytest.raises(UnknownMessage, match="m1"):
            await mail.queues.resubmit("orders", ["m1"], limit=10, act=ACT, now=mail.now)

    # Those who wait

    async def test_whoever_waits_is_called_when_there_is_something_to_receive(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        calls: list[str] = []
        stop = mail.queues.listen(lambda names: calls.extend(names or ["anything"]))

        await mail.send("a", session="s")
        await mail.send("b", session="s")
        assert "orders" in calls
        message = await mail.one()
        calls.clear()
        await mail.complete(message)
        assert "orders" in calls
        calls.clear()
        await mail.abandon(await mail.one())
        assert "orders" in calls
        stop()
        calls.clear()
        await mail.send("c")
        assert calls == []

    # Underneath

    async def _topic(self, mail: Mail, **subscriptions: dict[str, str | int | float | bool]) -> None:
        await mail.queues.declare_topic("prices", now=mail.now)
        for name, where in subscriptions.items():
            await self._subscribe(mail, name, where)

    async def _subscribe(self, mail: Mail, name: str, where: dict[str, str | int | float | bool]) -> bool:
        subscription = Subscription(topic="prices", name=name, where=where)
        return await mail.queues.subscribe(subscription, Queue(name=subscription.queue), now=mail.now)
