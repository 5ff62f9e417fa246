"""Queues in trouble: a person is called, once for each queue, and again only when somebody took that up."""

from __future__ import annotations

import asyncio

import pytest

from backstay.domain.alert import Alert, AlertKind, NewAlert
from backstay.domain.audit import Act
from backstay.domain.message import EXPIRED, TOO_MANY_DELIVERIES, Action
from backstay.domain.states import TaskState
from backstay.errors import QueueFull
from backstay.observe import STATUS_LOST, counters
from backstay.store.base import Store
from backstay.store.records import AlertFilter, AuditFilter
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import Holder, Promises, submitted
from backstay.testing.promises.mail import LOCK, MINUTE, Mail
from backstay.testing.promises.statuses import Told

ACT = Act(who="ann", action="resubmit", target="queue:orders")


async def alerts(store: Store) -> list[Alert]:
    """Those that nobody took up."""
    return await store.records.alerts(AlertFilter(open_only=True))


class QueueAlertPromises(Promises):
    @pytest.fixture
    async def mail(self, store: Store, clock: ManualClock) -> Mail:
        mail = Mail(store.queues, clock)
        await mail.declare(max_deliveries=1, ttl=10 * MINUTE, dead_letter_expired=True)
        return mail

    # Dead letters

    @pytest.mark.parametrize(
        ("how", "reason"),
        [
            ("dead-letter", "bad address"),
            ("abandon", TOO_MANY_DELIVERIES),
            ("lock", TOO_MANY_DELIVERIES),
            ("expiry", EXPIRED),
        ],
    )
    async def test_a_message_that_is_set_aside_calls_for_a_person(
        self, store: Store, mail: Mail, clock: ManualClock, how: str, reason: str
    ) -> None:
        """QL-5."""
        await mail.send("a", id="m1")
        match how:
            case "dead-letter":
                await mail.settle(await mail.one(), Action.DEAD_LETTER, reason=reason)
            case "abandon":
                await mail.abandon(await mail.one())
            case "lock":
                await mail.one()
                clock.pass_time(LOCK)
                await mail.receive()
            case _:
                clock.pass_time(10 * MINUTE)
                await mail.receive()

        [alert] = await alerts(store)
        assert (alert.kind, alert.target, alert.task_id) == (AlertKind.DEAD_LETTER, "queue:orders", None)
        assert (alert.at, reason in alert.message, "m1" in alert.message) == (clock.now(), True, True)

    async def test_many_dead_letters_call_once_and_again_when_that_was_taken_up(
        self, store: Store, mail: Mail
    ) -> None:
        for number in range(20):
            await mail.send(number)
        messages = await mail.receive()
        await asyncio.gather(*(mail.settle(one, Action.DEAD_LETTER, reason="no") for one in messages[:10]))
        [alert] = await alerts(store)

        act = Act(who="ann", action="acknowledge", target=f"alert:{alert.id}")
        await store.records.acknowledge(alert.id, act, now=mail.now)
        assert await alerts(store) == []
        for one in messages[10:]:
            await mail.settle(one, Action.DEAD_LETTER, reason="no")

        [again] = await alerts(store)
        assert again.id > alert.id

    async def test_each_queue_calls_for_itself(self, store: Store, mail: Mail) -> None:
        await mail.declare("others", max_deliveries=1)
        for name in ("orders", "others"):
            await mail.send("a", to=name)
            await mail.abandon(await mail.one(name))

        assert sorted(one.target for one in await alerts(store)) == ["queue:orders", "queue:others"]

    async def test_whoever_puts_dead_letters_back_has_taken_that_up(self, store: Store, mail: Mail) -> None:
        await mail.send("a")
        await mail.abandon(await mail.one())

        await store.queues.resubmit("orders", None, limit=9, act=ACT, now=mail.now)

        assert await alerts(store) == []
        [alert] = await store.records.alerts(AlertFilter())
        assert (alert.acknowledged_by, alert.acknowledged_at) == ("ann", mail.now)

    async def test_a_message_that_calls_by_itself_does_so_once(self, store: Store, mail: Mail) -> None:
        await mail.send("a")
        own = NewAlert(kind=AlertKind.SUBMISSION_CONFLICT, message="which one?", target="queue:orders")

        await mail.settle(await mail.one(), Action.DEAD_LETTER, reason="no", alert=own)

        assert [one.kind for one in await alerts(store)] == [AlertKind.SUBMISSION_CONFLICT]

    # Full queues

    async def test_a_full_queue_calls_for_a_person_once(self, store: Store, mail: Mail) -> None:
        """QL-5."""
        await mail.declare(max_messages=1)
        await mail.send("a")
        assert await alerts(store) == []

        for _ in range(3):
            with pytest.raises(QueueFull):
                await mail.send("b")

        [alert] = await alerts(store)
        assert (alert.kind, alert.target) == (AlertKind.QUEUE_FULL, "queue:orders")
        assert "max_messages" in alert.message

    # Statuses

    async def test_a_status_queue_that_is_full_holds_up_no_task(
        self, store: Store, clock: ManualClock, mail: Mail, alice: Holder
    ) -> None:
        """DESIGN promise 10: a dead listener costs what may be in its queue, and no task anything."""
        await mail.declare("desk", max_messages=2)
        lost = counters[STATUS_LOST]
        first = await alice.hold("a", reply_to="queue:desk")
        await alice.leave(first, TaskState.PROCESSED)
        second = await alice.hold("b", reply_to="queue:desk")
        await alice.leave(second, TaskState.PROCESSED)

        desk = Told(store, clock, "desk")
        assert await desk.statuses("a") == [("received", 1), ("started", 2)]
        assert await desk.statuses("b") == []
        assert (await store.task("b")).state is TaskState.PROCESSED
        assert counters[STATUS_LOST] == lost + 4

        await mail.complete(*await mail.receive("desk"))
        await submitted(store, clock, "c", reply_to="queue:desk")
        assert await desk.statuses("c") == [("received", 1)]

    # The audit trail

    async def test_what_is_done_to_a_queue_is_in_the_audit_trail(self, store: Store, mail: Mail) -> None:
        await mail.send("a")
        await mail.send("b")
        await mail.abandon(await mail.one())

        await store.queues.discard("orders", None, limit=9, act=_act("discard"), now=mail.now)
        await store.queues.purge("orders", limit=9, act=_act("drop messages"), now=mail.now)
        await store.queues.delete("orders", most=0, act=_act("delete"), now=mail.now)

        entries = await store.records.audit(AuditFilter(target="queue:orders"))
        assert [(one.action, one.before) for one in reversed(entries)] == [
            ("discard", {"dead": 1}),
            ("drop messages", {"messages": 1}),
            ("delete", {"messages": 0}),
        ]
        assert await alerts(store) == []


def _act(action: str) -> Act:
    return Act(who="ann", action=action, target="queue:orders", reason="cleaning up")
