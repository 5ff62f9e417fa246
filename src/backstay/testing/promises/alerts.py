"""Alerts: raised with what they tell of, listed until somebody takes them up."""

from __future__ import annotations

from typing import Any

import pytest

from backstay.domain.alert import Alert, AlertKind, NewAlert, of_task
from backstay.domain.control import Subject
from backstay.domain.lease import Leader
from backstay.domain.states import StepState, TaskState
from backstay.errors import Conflict, LeaseLost, UnknownAlert
from backstay.store.base import Store
from backstay.store.records import AlertFilter, AuditFilter
from backstay.testing.clock import ManualClock
from backstay.testing.promises.controls import pause, resume
from backstay.testing.promises.holder import CANCEL, SECOND, Holder, Promises, applied, submitted, taken_away
from backstay.testing.promises.leader_verbs import a_pause
from backstay.testing.promises.records import about
from backstay.testing.records import a_step, let_go, replace


def an_alert(message: str = "Refused: no", **fields: Any) -> NewAlert:
    return replace(of_task(AlertKind.TASK_ERROR, "t", message=message), **fields)


class AlertPromises(Promises):
    # Raised

    async def test_an_alert_is_there_with_the_turn_that_raised_it(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        alert = an_alert(step="charge:1")

        assert await alice.write(task, task=let_go(task, TaskState.ERROR), alerts=[alert]) is None

        [found] = await store.records.alerts(AlertFilter())
        assert found == Alert(
            id=found.id,
            kind=AlertKind.TASK_ERROR,
            target="task:t",
            task_id="t",
            step="charge:1",
            message="Refused: no",
            at=clock.now(),
            last_at=clock.now(),
        )

    async def test_every_kind_of_alert_can_be_raised_and_one_turn_may_raise_several(
        self, store: Store, alice: Holder
    ) -> None:
        kinds = set(AlertKind) - {AlertKind.TEST}
        alerts = [an_alert(kind=kind) for kind in kinds]

        await alice.write(await alice.hold("t"), alerts=alerts)

        assert {one.kind for one in await store.records.alerts(AlertFilter())} == kinds

    async def test_a_refused_turn_raises_no_alert(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")
        await taken_away(store, clock, task)

        assert isinstance(await alice.write(task, alerts=[an_alert()]), LeaseLost)

        assert await store.records.alerts(AlertFilter()) == []

    async def test_of_turns_that_are_written_together_only_the_refused_ones_raise_none(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await submitted(store, clock, "a", "b")
        first, second = [claimed.task for claimed in await alice.claim()]
        await alice.write(second, steps=[a_step(StepState.SKIPPED)])

        answers = await applied(
            store,
            alice.turn(first, steps=[a_step()], alerts=[an_alert("good")]),
            alice.turn(second, steps=[a_step(StepState.RUNNING)], alerts=[an_alert("no such arrow")]),
        )

        assert [type(answer) for answer in answers] == [type(None), Conflict]
        assert [one.message for one in await store.records.alerts(AlertFilter())] == ["good"]

    @pytest.mark.parametrize("message", ["a \0 in it", "half of a \ud83d pair", "x" * 100_000])
    async def test_whatever_a_service_said_the_alert_is_raised(
        self, store: Store, alice: Holder, message: str
    ) -> None:
        task = await alice.hold("t")

        assert await alice.write(task, task=let_go(task, TaskState.ERROR), alerts=[an_alert(message)]) is None

        [found] = await store.records.alerts(AlertFilter())
        assert found.message[:2] == message[:2]
        assert len(found.message) < 10_000

    async def test_alerts_are_listed_newest_first_and_page_by_page(self, store: Store, alice: Holder) -> None:
        await self._raised(alice, *"abcde")

        first = await store.records.alerts(AlertFilter(limit=3))
        second = await store.records.alerts(AlertFilter(limit=3, before=first[-1].id))

        assert [[one.message for one in page] for page in (first, second)] == [["e", "d", "c"], ["b", "a"]]

    # Taken up

    async def test_an_alert_is_taken_up_once_and_the_first_who_did_stays_named(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await self._raised(alice, "a", "b")
        [newest, oldest] = await store.records.alerts(AlertFilter(open_only=True))
        target = f"alert:{oldest.id}"
        clock.pass_time(SECOND)

        taken = await store.records.acknowledge(oldest.id, about(target), now=clock.now())
        clock.pass_time(SECOND)
        again = await store.records.acknowledge(oldest.id, about(target, who="ben"), now=clock.now())

        assert taken == again == replace(oldest, acknowledged_by="ann", acknowledged_at=clock.now() - SECOND)
        assert await store.records.alerts(AlertFilter(open_only=True)) == [newest]
        assert await store.records.alerts(AlertFilter()) == [newest, taken]
        [entry] = await store.records.audit(AuditFilter(target=target))
        assert (entry.who, entry.before, entry.after) == (
            "ann",
            {"acknowledged_by": None},
            {"acknowledged_by": "ann"},
        )

    @pytest.mark.parametrize("alert_id", [1, 0, -1, 2**70])
    async def test_an_alert_that_is_not_there_cannot_be_taken_up(
        self, store: Store, clock: ManualClock, alert_id: int
    ) -> None:
        with pytest.raises(UnknownAlert):
            await store.records.acknowledge(alert_id, about("alert"), now=clock.now())

        assert await store.records.audit(AuditFilter()) == []

    async def test_who_moves_a_task_by_hand_takes_up_its_alerts_and_no_others(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await self._raised(alice, "a", "b")
        await alice.write(
            await alice.hold("other"), alerts=[of_task(AlertKind.TASK_ERROR, "other", message="c")]
        )
        clock.pass_time(SECOND)

        await store.amend("t", CANCEL, now=clock.now(), act=about("task:t"))

        [left] = await store.records.alerts(AlertFilter(open_only=True))
        [_, *taken] = await store.records.alerts(AlertFilter())
        assert left.message == "c"
        assert {(one.acknowledged_by, one.acknowledged_at) for one in taken} == {("ann", clock.now())}

    async def test_who_moves_one_step_takes_up_what_tells_of_it_or_of_the_whole_task(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        alerts = [an_alert(str(step), step=step) for step in ("a:1", "b:1", None)]
        await alice.write(await alice.hold("t"), alerts=alerts)

        await store.amend("t", CANCEL, now=clock.now(), act=replace(about("task:t"), step="a:1"))

        [left] = await store.records.alerts(AlertFilter(open_only=True))
        assert left.step == "b:1"

    async def test_an_alert_that_was_taken_up_stays_with_whoever_did(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await self._raised(alice, "a")
        [raised] = await store.records.alerts(AlertFilter())
        taken = await store.records.acknowledge(raised.id, about("alert", who="ben"), now=clock.now())
        clock.pass_time(SECOND)

        await store.amend("t", CANCEL, now=clock.now(), act=about("task:t"))

        assert await store.records.alerts(AlertFilter()) == [taken]

    async def test_neither_a_signal_nor_a_move_that_nobody_answers_for_takes_an_alert_up(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await self._raised(alice, "a")

        await store.signal("t", "go", b"1", dedup=None, now=clock.now(), act=about("task:t"))
        await store.amend("t", CANCEL, now=clock.now())

        assert len(await store.records.alerts(AlertFilter(open_only=True))) == 1

    @pytest.mark.parametrize("subject", Subject)
    async def test_who_ends_a_pause_of_the_supervisor_takes_up_the_alert_that_tells_of_it(
        self, store: Store, clock: ManualClock, leader: Leader, subject: Subject
    ) -> None:
        for name in ("ship", "bill"):
            control = a_pause(clock, name, subject)
            await store.supervision.hold_back(leader, control, message=name, now=clock.now())
        await pause(store, clock, subject, "ship")
        assert len(await store.records.alerts(AlertFilter(open_only=True))) == 2

        await resume(store, clock, subject, "ship")

        [left] = await store.records.alerts(AlertFilter(open_only=True))
        assert (left.target, left.message) == (f"{subject}:bill", "bill")

    async def _raised(self, alice: Holder, *messages: str) -> None:
        task = await alice.hold("t")
        for message in messages:
            await alice.write(task, alerts=[an_alert(message, step=f"{message}:1")])
