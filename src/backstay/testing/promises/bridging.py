"""Messages that a reader made of events: sent once, with the position that says so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from backstay.domain.audit import Act
from backstay.domain.message import NewMessage
from backstay.domain.stream import EventRecord
from backstay.errors import LeaseLost, QuarantineFull, QueueFull, UnknownQueue
from backstay.store.base import Changes, Store
from backstay.store.groups import Advance, Advanced, Send
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import LEASE, SECOND
from backstay.testing.promises.mail import Mail, body_of, ids
from backstay.testing.promises.readers import ARCHIVE, Reader, ReadingPromises, a_start, an_event, set_aside

RESUBMIT = Act(who="me", action="resubmit", target="stream:telemetry")


def a_send(offset: int = 0, *, to: str = "orders", event: EventRecord | None = None, **fields: Any) -> Send:
    """The message that is made of the event at ``offset``."""
    given = {"id": f"message-{offset}", "named": True, "body": b"%d" % offset, **fields}
    return Send(NewMessage(to=to, **given), event or an_event(offset))


def sends(*offsets: int, **fields: Any) -> list[Send]:
    return [a_send(offset, **fields) for offset in offsets]


class BridgePromises(ReadingPromises):
    @pytest.fixture
    async def bridged(self, store: Store, clock: ManualClock) -> Mail:
        bridged = Mail(store.queues, clock)
        await bridged.declare()
        return bridged

    async def test_messages_and_checkpoint_are_written_together(self, reader: Reader, bridged: Mail) -> None:
        answer = await reader.advance(await reader.held(), to=3, messages=sends(0, 1, 2))

        assert answer == Advanced(sent=3)
        assert await reader.checkpoint() == 3
        assert await bridged.bodies() == [0, 1, 2]

    async def test_messages_have_what_they_were_given(self, reader: Reader, bridged: Mail) -> None:
        await bridged.declare("calls", sessions=True)
        message = a_send(0, to="calls", session="ann", priority=3, properties={"urgent": True})

        await reader.advance(await reader.held(), to=1, messages=[message])

        [found] = await bridged.receive("calls")
        assert (found.id, found.session, found.properties) == ("message-0", "ann", {"urgent": True})

    async def test_whoever_listens_hears_that_there_is_something_to_receive(
        self, store: Store, reader: Reader, bridged: Mail
    ) -> None:
        heard: list[Changes] = []
        stop = store.listen(heard.append)

        await reader.advance(await reader.held(), to=1, messages=sends(0))
        stop()

        assert any("orders" in changes.queues for changes in heard)

    # What is said again

    @pytest.mark.parametrize("dedup", [timedelta(0), timedelta(minutes=10)])
    async def test_what_is_said_again_is_not_sent_again_however_late(
        self, reader: Reader, bridged: Mail, clock: ManualClock, dedup: timedelta
    ) -> None:
        """The position says so: no window of ids is needed."""
        await bridged.declare(dedup=dedup)
        held = await reader.held()
        await reader.advance(held, to=2, messages=sends(0, 1))
        clock.pass_time(timedelta(days=30))
        [held] = await reader.hold(0)

        assert await reader.advance(held, to=2, messages=sends(0, 1)) == Advanced()
        assert await reader.advance(held, to=3, messages=sends(0, 1, 2)) == Advanced(sent=1)

        assert await bridged.bodies() == [0, 1, 2]

    async def test_what_is_said_twice_at_once_is_sent_once(self, reader: Reader, bridged: Mail) -> None:
        await bridged.declare(dedup=timedelta(0))
        held = await reader.held()

        answers = await reader.advance_all([Advance(holding=held, to=1, messages=sends(0))] * 2)

        assert answers == [Advanced(sent=1), Advanced()]
        assert await bridged.bodies() == [0]

    async def test_two_events_that_name_one_message_send_it_once(self, reader: Reader, bridged: Mail) -> None:
        messages = [a_send(0, id="same"), a_send(1, id="same")]

        assert await reader.advance(await reader.held(), to=2, messages=messages) == Advanced(sent=1)
        assert await bridged.bodies() == [0]

    async def test_every_partition_has_a_position_of_its_own(self, reader: Reader, bridged: Mail) -> None:
        far, near = await reader.hold(0, 1)
        await reader.advance(far, to=9)
        late = a_send(5, event=an_event(5, partition=1))

        answers = await reader.advance_all(
            [
                Advance(holding=far, to=9, messages=sends(4)),
                Advance(holding=near, to=6, messages=[late]),
            ]
        )

        assert answers == [Advanced(), Advanced(sent=1)]
        assert await bridged.bodies() == [5]

    # What cannot be sent

    async def test_a_full_queue_refuses_all_of_an_advance(self, reader: Reader, bridged: Mail) -> None:
        """SB-13: nothing is skipped, and the checkpoint stays behind what was not sent."""
        await bridged.declare(max_messages=2)
        held = await reader.held()

        answer = await reader.advance(held, to=4, messages=sends(0, 1, 2), quarantined=[set_aside(3)])

        assert isinstance(answer, QueueFull)
        assert (answer.queue, answer.limit) == ("orders", 2)
        assert await reader.checkpoint() is None
        assert await reader.quarantine() == []
        assert await bridged.bodies() == []

    async def test_room_that_was_made_is_seen_at_once(self, reader: Reader, bridged: Mail) -> None:
        await bridged.declare(max_messages=2)
        held = await reader.held()
        await reader.advance(held, to=2, messages=sends(0, 1))
        assert isinstance(await reader.advance(held, to=3, messages=sends(2)), QueueFull)

        await bridged.complete(*await bridged.receive())

        assert await reader.advance(held, to=4, messages=sends(2, 3)) == Advanced(sent=2)

    async def test_a_full_queue_does_not_hold_up_what_was_sent_before(
        self, reader: Reader, bridged: Mail
    ) -> None:
        await bridged.declare(max_messages=1)
        held = await reader.held()
        await reader.advance(held, to=1, messages=sends(0))

        assert await reader.advance(held, to=2, messages=sends(0)) == Advanced()
        assert await reader.checkpoint() == 2

    async def test_of_two_that_come_together_the_one_there_is_room_for_advances(
        self, reader: Reader, bridged: Mail
    ) -> None:
        await bridged.declare(max_messages=3)
        first, second = await reader.hold(0, 1)
        beside = [
            a_send(offset, id=f"beside-{offset}", event=an_event(offset, partition=1)) for offset in (0, 1)
        ]

        answers = await reader.advance_all(
            [
                Advance(holding=first, to=2, messages=sends(0, 1)),
                Advance(holding=second, to=2, messages=beside),
            ]
        )

        assert answers[0] == Advanced(sent=2)
        assert isinstance(answers[1], QueueFull)
        assert await bridged.bodies() == [0, 1]
        assert (await reader.checkpoint(0), await reader.checkpoint(1)) == (2, None)

    async def test_without_its_queue_an_advance_waits(self, reader: Reader, bridged: Mail) -> None:
        held = await reader.held()

        answer = await reader.advance(held, to=1, messages=sends(0, to="nowhere"))
        assert isinstance(answer, UnknownQueue)
        assert await reader.checkpoint() is None

        await bridged.declare("nowhere")
        assert await reader.advance(held, to=1, messages=sends(0, to="nowhere")) == Advanced(sent=1)

    async def test_an_event_whose_message_the_queue_does_not_take_is_set_aside(
        self, reader: Reader, bridged: Mail
    ) -> None:
        await bridged.declare("calls", sessions=True)
        messages = [a_send(0, to="calls"), a_send(1, to="calls", session="ann")]

        answer = await reader.advance(await reader.held(), to=2, messages=messages)

        assert answer == Advanced(sent=1, conflicts=1)
        [aside] = await reader.quarantine()
        assert aside.event == an_event(0)
        assert aside.reason.startswith("send: ")
        assert "session" in aside.reason
        assert await reader.checkpoint() == 2
        assert await bridged.bodies("calls") == [1]

    async def test_without_room_in_quarantine_nothing_is_sent(self, reader: Reader, bridged: Mail) -> None:
        answer = await reader.advance(
            await reader.held(), to=2, messages=sends(0), quarantined=[set_aside(1)], quarantine_max=0
        )

        assert isinstance(answer, QuarantineFull)
        assert await bridged.bodies() == []

    # Who may

    async def test_who_was_displaced_sends_nothing(
        self, reader: Reader, rival: Reader, bridged: Mail, clock: ManualClock
    ) -> None:
        held = await reader.held()
        clock.pass_time(LEASE + SECOND)
        taken = await rival.held()

        assert isinstance(await reader.advance(held, to=1, messages=sends(0)), LeaseLost)
        assert await rival.advance(taken, to=1, messages=sends(0)) == Advanced(sent=1)

        assert await bridged.bodies() == [0]

    async def test_tasks_and_messages_may_come_together(
        self, store: Store, reader: Reader, bridged: Mail
    ) -> None:
        first, second = await reader.hold(0, 1)

        answers = await reader.advance_all(
            [
                Advance(holding=first, to=1, messages=sends(0)),
                Advance(holding=second, to=1, starts=[a_start("a", partition=1)]),
            ]
        )

        assert answers == [Advanced(sent=1), Advanced(started=1)]
        assert (await store.task("a")).id == "a"
        assert await bridged.bodies() == [0]

    # What a person wants processed again

    async def test_the_message_of_an_event_that_leaves_the_quarantine_is_sent_once(
        self, store: Store, reader: Reader, bridged: Mail, clock: ManualClock
    ) -> None:
        await bridged.declare(dedup=timedelta(0))
        held = await reader.held()
        await reader.advance(held, to=9, quarantined=[set_aside(4)])
        [number] = await store.groups.resubmit(ARCHIVE.stream, None, limit=9, act=RESUBMIT, now=clock.now())

        again = Advance(holding=held, messages=sends(4), settled=[number])
        assert await reader.advance_all([again]) == [Advanced(sent=1)]
        assert await reader.advance_all([again]) == [Advanced()]

        assert [body_of(one) for one in await bridged.receive()] == [4]
        assert await reader.quarantine() == []

    async def test_ids_are_forgotten_when_their_time_is_over(
        self, reader: Reader, bridged: Mail, clock: ManualClock
    ) -> None:
        """An id that somebody else sends within the window is the same message; after it, it is another."""
        held = await reader.held()
        await reader.advance(held, to=1, messages=sends(0))
        assert (await bridged.send("again", id="message-0")).duplicate

        clock.pass_time(timedelta(minutes=11))

        assert not (await bridged.send("again", id="message-0")).duplicate
        assert ids(await bridged.receive()) == ["message-0"] * 2
