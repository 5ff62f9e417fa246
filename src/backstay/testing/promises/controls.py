"""Workflows and agents that are held back, and what follows for their tasks."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from backstay.domain.audit import Act
from backstay.domain.control import Control, Forced, Subject, facts
from backstay.domain.lease import Leader
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepRecord, UndoKind
from backstay.errors import IllegalMove
from backstay.store.base import Runnable, Store
from backstay.store.records import AuditFilter
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import (
    MANY,
    RUN_TIME,
    SECOND,
    SHIP,
    Holder,
    Promises,
    submitted,
)
from backstay.testing.promises.listeners import Ear
from backstay.testing.records import a_step, replace

BILL: Final = Runnable("bill", 1, RUN_TIME)


async def regulate(
    store: Store, clock: ManualClock, subject: Subject, name: str, action: str, **changes: Any
) -> Control:
    """As an operator would: from what is in force to what is to be."""
    act = Act(who="ann", action=action, target=f"{subject}:{name}", reason="because")

    def change(known: Control | None) -> Control:
        base = known or Control(subject=subject, name=name, by="ann", at=clock.now())
        return replace(base, by="ann", reason=act.reason, at=clock.now(), **changes)

    return await store.records.regulate(subject, name, change, act, now=clock.now())


async def pause(store: Store, clock: ManualClock, subject: Subject, name: str) -> Control:
    return await regulate(store, clock, subject, name, "pause", paused=True)


async def resume(store: Store, clock: ManualClock, subject: Subject, name: str) -> Control:
    return await regulate(store, clock, subject, name, "resume", paused=False)


async def force_breaker(store: Store, clock: ManualClock, agent: str, position: Forced | None) -> Control:
    return await regulate(store, clock, Subject.AGENT, agent, f"breaker {position}", breaker=position)


class ControlPromises(Promises):
    async def test_at_first_nothing_is_held_back(self, store: Store) -> None:
        assert await store.records.controls() == []

    async def test_what_is_held_back_is_listed_until_it_may_go_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        workflow = await pause(store, clock, Subject.WORKFLOW, "ship")
        agent = await force_breaker(store, clock, "ship", Forced.OPEN)

        assert (workflow.paused, workflow.by, workflow.reason) == (True, "ann", "because")
        assert agent.breaker is Forced.OPEN
        assert await store.records.controls() == [agent, workflow]

        ended = await resume(store, clock, Subject.WORKFLOW, "ship")
        assert ended.idle
        assert await store.records.controls() == [agent]

    async def test_who_regulates_decides_on_what_is_in_force(self, store: Store, clock: ManualClock) -> None:
        await pause(store, clock, Subject.AGENT, "bank")
        both = await force_breaker(store, clock, "bank", Forced.CLOSED)

        rest = await resume(store, clock, Subject.AGENT, "bank")

        assert (both.paused, both.breaker) == (True, Forced.CLOSED)
        assert await store.records.controls() == [rest]
        assert (rest.paused, rest.breaker) == (False, Forced.CLOSED)

    async def test_nothing_is_lost_between_two_who_regulate_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        await asyncio.gather(
            pause(store, clock, Subject.AGENT, "bank"), force_breaker(store, clock, "bank", Forced.OPEN)
        )

        [found] = await store.records.controls()
        assert (found.paused, found.breaker) == (True, Forced.OPEN)

    async def test_each_regulation_is_a_line_in_the_trail(self, store: Store, clock: ManualClock) -> None:
        paused = await pause(store, clock, Subject.WORKFLOW, "ship")
        clock.pass_time(SECOND)
        await resume(store, clock, Subject.WORKFLOW, "ship")

        second, first = await store.records.audit(AuditFilter())

        assert [(one.who, one.action, one.target, one.reason) for one in (first, second)] == [
            ("ann", "pause", "workflow:ship", "because"),
            ("ann", "resume", "workflow:ship", "because"),
        ]
        assert (first.before, first.after) == (None, facts(paused))
        assert (second.before, second.after) == (facts(paused), None)
        assert (first.at, second.at) == (clock.now() - SECOND, clock.now())

    async def test_a_regulation_that_is_refused_changes_nothing_and_leaves_no_line(
        self, store: Store, clock: ManualClock
    ) -> None:
        def refuse(_known: Control | None) -> Control:
            raise IllegalMove("it", source="here", target="there")

        act = Act(who="ann", action="pause", target="workflow:ship")
        with pytest.raises(IllegalMove):
            await store.records.regulate(Subject.WORKFLOW, "ship", refuse, act, now=clock.now())

        assert await store.records.controls() == []
        assert await store.records.audit(AuditFilter()) == []

    async def test_whoever_listens_is_told_that_something_is_held_back_or_no_longer(
        self, store: Store, clock: ManualClock
    ) -> None:
        began = Ear(store)
        await pause(store, clock, Subject.WORKFLOW, "ship")
        began.stop()
        ended = Ear(store)
        await resume(store, clock, Subject.WORKFLOW, "ship")

        assert (began.controls, began.claimable) == (True, False)
        assert (ended.controls, ended.claimable) == (True, True), "its tasks can be claimed at once"

    # Workflows

    async def test_the_tasks_of_a_paused_workflow_are_left_alone_and_all_others_are_not(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await submitted(store, clock, "s1", "s2")
        await submitted(store, clock, "b1", workflow="bill")
        await pause(store, clock, Subject.WORKFLOW, "ship")
        await pause(store, clock, Subject.AGENT, "bill")

        claimed = await alice.claim(runs=[SHIP, BILL])

        assert [one.task.id for one in claimed] == ["b1"]
        assert (await store.task("s1")).state is TaskState.PENDING

    async def test_they_are_claimed_once_it_goes_on(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await submitted(store, clock, "s1", "s2")
        await pause(store, clock, Subject.WORKFLOW, "ship")
        assert await alice.claim() == []

        await resume(store, clock, Subject.WORKFLOW, "ship")

        assert [one.task.id for one in await alice.claim()] == ["s1", "s2"]

    async def test_the_undos_of_a_paused_workflow_are_left_alone_as_well(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await alice.leave(await alice.hold("t"), TaskState.UNDOING, steps=[a_step()])

        await pause(store, clock, Subject.WORKFLOW, "ship")

        assert await alice.claim() == []

    async def test_who_holds_a_task_of_a_paused_workflow_brings_it_to_its_end(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold("t")

        await pause(store, clock, Subject.WORKFLOW, "ship")

        await alice.leave(task, TaskState.PROCESSED, steps=[a_step()])

    # Agents

    @pytest.mark.parametrize("how", ["a pause", "a breaker held open"])
    async def test_when_an_agent_goes_on_the_tasks_that_were_parked_because_of_it_are_woken(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder, how: str
    ) -> None:
        if how == "a pause":
            await pause(store, clock, Subject.AGENT, "bank")
        else:
            await force_breaker(store, clock, "bank", Forced.OPEN)
        later = clock.now() + RUN_TIME
        queued = a_step(StepState.PENDING)
        to_undo = a_step(undo=UndoKind.AUTOMATIC)
        await self._parked(alice, "queued", queued, wake_at=later)
        await self._parked(alice, "without a time", queued, wake_at=None)
        await self._parked(alice, "undo", to_undo, state=TaskState.UNDOING, wake_at=later)
        await self._parked(alice, "other agent", replace(queued, agent="drone"), wake_at=later)
        await self._parked(alice, "only planned", replace(queued, input=None), wake_at=later)
        await self._parked(alice, "done", a_step(), wake_at=later)
        by_hand = a_step(StepState.UNDOING, undo=UndoKind.MANUAL)
        await self._parked(alice, "by hand", by_hand, state=TaskState.UNDOING, wake_at=None)

        if how == "a pause":
            await resume(store, clock, Subject.AGENT, "bank")
        else:
            await force_breaker(store, clock, "bank", None)

        assert await store.supervision.wake(leader, now=clock.now(), limit=MANY) == 3
        woken = {one.task.id for one in await alice.claim()}
        assert woken == {"queued", "without a time", "undo"}

    async def test_while_an_agent_is_still_held_back_nobody_is_woken(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await pause(store, clock, Subject.AGENT, "bank")
        await force_breaker(store, clock, "bank", Forced.OPEN)
        await self._parked(alice, "t", a_step(StepState.PENDING), wake_at=clock.now() + RUN_TIME)

        await resume(store, clock, Subject.AGENT, "bank")
        assert await store.supervision.wake(leader, now=clock.now(), limit=MANY) == 0

        await force_breaker(store, clock, "bank", Forced.CLOSED)
        assert await store.supervision.wake(leader, now=clock.now(), limit=MANY) == 1

    async def test_a_breaker_that_is_held_closed_lets_in_those_who_waited_for_it_to_close(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        await self._parked(alice, "t", a_step(StepState.PENDING), wake_at=clock.now() + RUN_TIME)

        await force_breaker(store, clock, "bank", Forced.CLOSED)

        assert await store.supervision.wake(leader, now=clock.now(), limit=MANY) == 1

    async def test_who_waits_for_an_agent_can_be_called(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        later = clock.now() + RUN_TIME
        await self._parked(alice, "t", a_step(StepState.PENDING), wake_at=later)
        await self._parked(alice, "other", a_step(StepState.PENDING, agent="drone"), wake_at=later)

        await store.records.call_for("bank", now=clock.now())

        assert await store.supervision.wake(leader, now=clock.now(), limit=MANY) == 1
        assert [one.task.id for one in await alice.claim()] == ["t"]

    async def test_ending_a_pause_forgets_what_was_recovered_before(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder
    ) -> None:
        begun = clock.now()
        await alice.hold("t")
        clock.pass_time(RUN_TIME + SECOND)
        await store.beat(alice.owner, now=clock.now())
        leader = await store.supervision.lead(str(leader.holder), lease=RUN_TIME, now=clock.now())
        await store.supervision.expire_runs(leader, grace=SECOND, now=clock.now(), limit=MANY)
        await pause(store, clock, Subject.WORKFLOW, "ship")
        assert len(await store.supervision.recoveries(since=begun)) == 1

        await resume(store, clock, Subject.WORKFLOW, "ship")

        assert await store.supervision.recoveries(since=begun) == []

    async def _parked(
        self,
        alice: Holder,
        name: str,
        step: StepRecord,
        *,
        state: TaskState = TaskState.WAITING,
        **fields: Any,
    ) -> None:
        await alice.leave(await alice.hold(name), state, steps=[step], parked=True, **fields)
