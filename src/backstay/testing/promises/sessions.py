"""Messages of one session come one at a time and in order; different sessions at the same time."""

from __future__ import annotations

import asyncio

import pytest

from backstay.domain.message import Action
from backstay.errors import InvalidInput
from backstay.testing.clock import ManualClock
from backstay.testing.promises.mail import LOCK, SECOND, Mail, QueuePromises, body_of


class SessionPromises(QueuePromises):
    async def test_a_session_is_received_one_at_a_time_and_in_order(self, mail: Mail) -> None:
        """SC-1."""
        for body in ("a1", "a2", "a3"):
            await mail.send(body, session="a")
        await mail.send("b1", session="b")
        await mail.send("free")

        messages = await mail.receive()

        assert [body_of(one) for one in messages] == ["a1", "b1", "free"]
        assert await mail.receive() == []
        await mail.complete(messages[0])
        [second] = await mail.receive()
        assert body_of(second) == "a2"
        await mail.complete(second)
        assert await mail.bodies() == ["a3"]

    async def test_an_abandoned_message_holds_up_its_session(self, mail: Mail, clock: ManualClock) -> None:
        await mail.send("a1", session="a")
        await mail.send("a2", session="a")
        await mail.abandon(await mail.one(), delay=SECOND)

        assert await mail.receive() == []
        clock.pass_time(SECOND)
        assert await mail.bodies() == ["a1"]

    async def test_a_lock_that_ran_out_does_not_disturb_the_order(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SC-2."""
        await mail.send("a1", session="a")
        await mail.send("a2", session="a")
        await mail.one()

        clock.pass_time(LOCK)

        assert await mail.bodies() == ["a1"]

    @pytest.mark.parametrize("how", ["abandon", "lock", "dead-letter", "expiry"])
    async def test_a_message_that_is_set_aside_lets_its_session_go_on(
        self, mail: Mail, clock: ManualClock, how: str
    ) -> None:
        """SC-3."""
        await mail.declare("orders", max_deliveries=1)
        await mail.send("a1", session="a", ttl=SECOND if how == "expiry" else None)
        await mail.send("a2", session="a")
        match how:
            case "abandon":
                await mail.abandon(await mail.one())
            case "lock":
                await mail.one()
                clock.pass_time(LOCK)
            case "dead-letter":
                await mail.settle(await mail.one(), Action.DEAD_LETTER, reason="no")
            case _:
                clock.pass_time(SECOND)

        assert await mail.bodies() == ["a2"]

    async def test_a_scheduled_message_holds_up_its_session_only_from_its_time_on(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        await mail.send("later", session="a", at=clock.now() + SECOND)
        await mail.send("a1", session="a")
        first = await mail.one()
        assert body_of(first) == "a1"

        clock.pass_time(SECOND)
        assert await mail.receive() == []
        await mail.complete(first)
        assert await mail.bodies() == ["later"]

    async def test_a_scheduled_message_whose_time_has_come_is_before_what_is_sent_after(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        await mail.send("later", session="a", at=clock.now() + SECOND)
        clock.pass_time(2 * SECOND)
        await mail.send("after", session="a")

        assert await mail.bodies() == ["later"]

    async def test_many_at_once_keep_each_session_in_order(self, mail: Mail) -> None:
        """CC-2, SC-1."""
        names = [f"s{number}" for number in range(10)]
        for turn in range(5):
            await asyncio.gather(*(mail.send([name, turn], session=name) for name in names))
        seen: dict[str, list[int]] = {name: [] for name in names}

        async def receiver() -> None:
            while messages := await mail.receive(limit=3):
                for message in messages:
                    name, turn = body_of(message)
                    seen[name].append(turn)
                assert await mail.complete(*messages) == [None] * len(messages)

        while sum(map(len, seen.values())) < 50:
            await asyncio.gather(*(receiver() for _ in range(6)))

        assert all(turns == [0, 1, 2, 3, 4] for turns in seen.values())

    async def test_one_who_sends_while_another_completes_is_never_forgotten(self, mail: Mail) -> None:
        await mail.send(0, session="a")
        for number in range(1, 40):
            message = await mail.one()
            await asyncio.gather(mail.complete(message), mail.send(number, session="a"))

        assert await mail.bodies() == [39]

    async def test_sessions_need_no_declaration_and_leave_nothing_behind(self, mail: Mail) -> None:
        """SC-5: a session with nothing in it costs nothing, however many there were."""
        many = [mail.new(number, session=f"s{number}") for number in range(1_000)]
        await mail.queues.send(many, now=mail.now)

        assert await mail.complete(*await mail.receive()) == [None] * 1_000

        assert await mail.queues.sessions("orders", limit=9, counted=9) == []
        assert await mail.counts() == {}

    async def test_a_session_is_held_for_as_long_as_its_message_is_renewed(
        self, mail: Mail, clock: ManualClock
    ) -> None:
        """SC-2."""
        await mail.send("a1", session="a")
        await mail.send("a2", session="a")
        message = await mail.one()
        for _ in range(5):
            clock.pass_time(LOCK - SECOND)
            await mail.renew(message)
            assert await mail.receive() == []

        await mail.complete(message)
        assert await mail.bodies() == ["a2"]

    async def test_a_queue_of_sessions_refuses_what_has_none(self, mail: Mail) -> None:
        """SC-7, SB-10."""
        await mail.declare("orders", sessions=True)

        with pytest.raises(InvalidInput, match="session"):
            await mail.send("a")
