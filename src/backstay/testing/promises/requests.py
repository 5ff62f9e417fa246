"""What a scheduler asks of agents in other processes, and what they reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from backstay.domain.instants import micros
from backstay.domain.lease import Leader, Owner
from backstay.domain.operate import resubmit
from backstay.domain.request import (
    BrokenOff,
    Completed,
    Reference,
    Request,
    RequestStanding,
    reply_document,
    request_document,
    request_of,
)
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepRecord
from backstay.domain.task import TaskRecord
from backstay.errors import LeaseLost
from backstay.store.base import Changes, NewInstance, Store
from backstay.store.decisions import INSTANCES_KEPT
from backstay.store.requests import Answered, Mail, Sent, Taken
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import CANCEL, LEASE, SECOND, Holder, Promises, taken_away
from backstay.testing.records import a_step, begun, done, held, replace

BEGINNING: Final = ManualClock().now()
COMPLETE_BY: Final = BEGINNING + 30 * SECOND
RUNNING: Final = a_step(StepState.RUNNING)
UNDOING: Final = a_step(StepState.UNDOING, undo_attempt=1, complete_by=COMPLETE_BY)
DONE: Final = reply_document(Completed(b'"receipt"'))
ROOM: Final = {"bank": 10}


def reference(task: TaskRecord, step: str = "charge:1", *, attempt: int = 1, undo: bool = False) -> Reference:
    return Reference(task.key, step, undo, attempt)


def sent(task: TaskRecord, step: StepRecord = RUNNING, *, undo: bool = False, input: bytes = b"[7]") -> Sent:
    """The request that goes with ``step``."""
    attempt = step.undo_attempt if undo else step.attempt
    assert step.agent is not None
    request = Request(
        task_id=task.id,
        step=step.key,
        agent=step.agent,
        operation=step.operation,
        attempt=attempt,
        input=input,
        complete_by=micros(COMPLETE_BY),
        remaining_seconds=30.0,
        undo=undo,
    )
    return Sent(
        task_key=task.key,
        step=step.key,
        undo=undo,
        agent=step.agent,
        attempt=attempt,
        complete_by=micros(COMPLETE_BY),
        body=request_document(request).decode(),
    )


async def ask(alice: Holder, task: TaskRecord, *steps: StepRecord, **fields: Any) -> None:
    """Record steps as running and send their requests, all in one turn."""
    wanted = steps or (RUNNING,)
    mail = Mail(sent=[sent(task, step, **fields) for step in wanted])
    assert await alice.write(task, steps=[begun(step) for step in wanted], mail=mail) is None


def keys(taken: Sequence[Taken]) -> list[str]:
    return [
        request_of(one.body, task_key=one.reference.task_key, remaining_seconds=1.0).step for one in taken
    ]


class RequestPromises(Promises):
    @pytest.fixture
    async def host(self, store: Store, clock: ManualClock) -> Owner:
        return await self._host(store, clock, "host")

    @pytest.fixture
    async def other_host(self, store: Store, clock: ManualClock) -> Owner:
        return await self._host(store, clock, "other-host")

    @staticmethod
    async def _host(store: Store, clock: ManualClock, name: str) -> Owner:
        instance = NewInstance(id=name, host="localhost", pid=1, roles=("agents",))
        return await store.register(instance, now=clock.now())

    # The way there

    async def test_a_request_is_there_with_the_record_of_its_attempt_and_says_all_there_is_to_know(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        assert not await store.requests.waiting(["bank"], now=clock.now())

        await ask(alice, task)

        assert await store.requests.waiting(["bank"], now=clock.now())
        clock.pass_time(10 * SECOND)
        [one] = await store.requests.claim(host, ROOM, now=clock.now())
        request = request_of(
            one.body, task_key=one.reference.task_key, remaining_seconds=one.remaining_seconds
        )
        assert request.reference == reference(task)
        assert (request.task_id, request.operation, request.input) == ("t", "charge", b"[7]")
        assert request.complete_by == micros(COMPLETE_BY)
        assert request.remaining_seconds == pytest.approx(20.0)
        assert request.idempotency_key == "t/charge:1"
        assert not await store.requests.waiting(["bank"], now=clock.now())

    async def test_what_is_refused_is_not_sent(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        await taken_away(store, clock, task)

        refused = await alice.write(task, steps=[begun(RUNNING)], mail=Mail(sent=[sent(task)]))

        assert isinstance(refused, LeaseLost)
        assert await store.requests.standing([task.key]) == []

    async def test_a_host_is_given_the_oldest_and_for_each_agent_no_more_than_it_has_room_for(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner, other_host: Owner
    ) -> None:
        task = await alice.hold()
        bank = [a_step(StepState.RUNNING, key=f"charge:{number}") for number in (1, 2, 3)]
        post = [a_step(StepState.RUNNING, key=f"send:{number}", agent="post") for number in (1, 2)]
        for step in (*bank, *post):
            await ask(alice, task, step)

        first = await store.requests.claim(host, {"bank": 2, "post": 1}, now=clock.now())
        second = await store.requests.claim(other_host, {"bank": 5}, now=clock.now())

        assert keys(first) == ["charge:1", "charge:2", "send:1"]
        assert keys(second) == ["charge:3"]

    async def test_what_is_past_its_complete_by_is_not_taken_up(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        await ask(alice, await alice.hold())
        clock.pass_time(31 * SECOND)

        assert not await store.requests.waiting(["bank"], now=clock.now())
        assert await store.requests.claim(host, ROOM, now=clock.now()) == []

    async def test_what_nobody_waits_for_any_more_is_not_taken_up(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        await taken_away(store, clock, task)
        await store.amend("t", CANCEL, now=clock.now())

        assert await store.requests.claim(host, ROOM, now=clock.now()) == []

    async def test_a_task_that_begins_anew_leaves_no_request_behind(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        await alice.leave(task, TaskState.ERROR)

        await store.amend("t", lambda task, steps: resubmit(task, steps, from_="start"), now=clock.now())

        assert await store.requests.standing([task.key]) == []

    async def test_a_host_that_was_declared_dead_is_given_nothing(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner, leader: Leader
    ) -> None:
        await ask(alice, await alice.hold())
        clock.pass_time(LEASE + SECOND)
        await store.supervision.bury(leader, lease=LEASE, now=clock.now(), spare=alice.owner)

        with pytest.raises(LeaseLost):
            await store.requests.claim(host, ROOM, now=clock.now())

    async def test_a_large_request_arrives_whole(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        large = b'"' + b"x" * 200_000 + b'"'
        await ask(alice, await alice.hold(), input=large)

        [one] = await store.requests.claim(host, ROOM, now=clock.now())

        assert request_of(one.body, task_key=one.reference.task_key, remaining_seconds=1.0).input == large

    async def test_what_a_host_has_not_begun_it_can_give_back_to_another(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner, other_host: Owner
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        await store.requests.claim(host, ROOM, now=clock.now())
        await store.requests.release(other_host, [reference(task)])
        assert await store.requests.claim(other_host, ROOM, now=clock.now()) == [], "it was not theirs"

        await store.requests.release(host, [reference(task)])

        assert keys(await store.requests.claim(other_host, ROOM, now=clock.now())) == ["charge:1"]

    # The way back

    async def test_a_reply_lies_there_for_whoever_holds_the_task_by_then(
        self, store: Store, clock: ManualClock, alice: Holder, bob: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        await store.requests.claim(host, ROOM, now=clock.now())
        await taken_away(store, clock, task)

        assert await store.requests.answer([Answered(reference(task), DONE)], now=clock.now()) == [True]

        [claimed] = await bob.claim()
        [found] = claimed.requests
        assert (found.reference, found.answer()) == (reference(task), Completed(b'"receipt"'))
        assert await store.requests.standing([task.key]) == [found]

    async def test_a_reply_is_taken_once(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        await store.requests.claim(host, ROOM, now=clock.now())
        other = Answered(reference(task), reply_document(Completed(b"8")))

        answers = [Answered(reference(task), DONE), Answered(reference(task, "no such step:1"), DONE)]
        assert await store.requests.answer(answers, now=clock.now()) == [True, False]
        assert await store.requests.answer([other], now=clock.now()) == [False]

        [found] = await store.requests.standing([task.key])
        assert found.reply == DONE

    async def test_a_reply_for_an_attempt_that_is_no_longer_current_changes_nothing(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        await store.requests.claim(host, ROOM, now=clock.now())
        pending = replace(RUNNING, state=StepState.PENDING, complete_by=None, unsure=True)
        assert await alice.write(task, steps=[pending]) is None
        second = replace(RUNNING, attempt=2)
        assert await alice.write(task, steps=[second], mail=Mail(sent=[sent(task, second)])) is None

        assert await store.requests.answer([Answered(reference(task), DONE)], now=clock.now()) == [False]

        [found] = await store.requests.standing([task.key])
        assert (found.reference.attempt, found.reply, found.claimed_by) == (2, None, None)
        assert await store.requests.held(host) == []

    async def test_the_request_goes_with_the_record_of_what_it_came_to(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        await store.requests.claim(host, ROOM, now=clock.now())
        await store.requests.answer([Answered(reference(task), DONE)], now=clock.now())

        completed = replace(done(a_step()), task_key=task.key)
        turn = replace(alice.turn(task, mail=Mail(closed=[reference(task)])), steps=[completed])
        answers: list[Any] = []
        store.apply(turn, answers.append)

        assert await alice.write(task) is None
        assert answers == [None]
        assert await store.requests.standing([task.key]) == []

    async def test_what_is_sent_and_closed_in_the_same_breath_is_gone(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        pending = replace(RUNNING, state=StepState.PENDING, complete_by=None)
        began = alice.post(task, steps=[begun(RUNNING)], mail=Mail(sent=[sent(task)]))
        stopped = alice.post(task, steps=[pending], mail=Mail(closed=[reference(task)]))

        assert [await began, await stopped] == [None, None]

        assert await store.requests.standing([task.key]) == []

    async def test_an_undo_travels_in_the_same_way(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        undoing = held(task, TaskState.UNDOING)
        assert await alice.write(task, steps=[a_step()], task=undoing) is None
        mail = Mail(sent=[sent(task, UNDOING, undo=True)])
        assert await alice.write(undoing, steps=[UNDOING], mail=mail) is None

        [one] = await store.requests.claim(host, ROOM, now=clock.now())

        request = request_of(one.body, task_key=one.reference.task_key, remaining_seconds=1.0)
        assert (request.undo, request.idempotency_key) == (True, "t/charge:1/undo")
        wrong = Answered(reference(task), DONE)
        right = Answered(reference(task, undo=True), DONE)
        assert await store.requests.answer([wrong, right], now=clock.now()) == [False, True]

    # Withdrawn

    async def test_what_nobody_has_taken_up_is_withdrawn_at_once(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)

        found = await store.requests.withdraw(alice.owner, [reference(task)], now=clock.now())

        assert found == {reference(task): RequestStanding(reference=reference(task), complete_by=COMPLETE_BY)}
        assert await store.requests.standing([task.key]) == []
        assert await store.requests.claim(host, ROOM, now=clock.now()) == []

    async def test_who_works_on_what_was_withdrawn_is_told_and_says_when_it_has_stopped(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        await store.requests.claim(host, ROOM, now=clock.now())

        found = await store.requests.withdraw(alice.owner, [reference(task)], now=clock.now())

        assert found[reference(task)].claimed_by == "host"
        [told] = await store.requests.held(host)
        assert (told.reference, told.withdrawn) == (reference(task), True)
        assert await store.requests.answer([Answered(reference(task))], now=clock.now()) == [False]
        assert await store.requests.standing([task.key]) == []

    async def test_a_reply_to_what_was_withdrawn_is_late(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        await store.requests.claim(host, ROOM, now=clock.now())
        stopped = a_step(StepState.FAILED, unsure=True, ended_at=None)
        assert await alice.write(task, steps=[stopped], mail=Mail(closed=[reference(task)])) is None

        [told] = await store.requests.held(host)
        assert told.withdrawn
        assert await store.requests.answer([Answered(reference(task), DONE)], now=clock.now()) == [False]

        assert await store.requests.standing([task.key]) == []

    async def test_what_was_answered_in_time_is_not_withdrawn_any_more(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        await store.requests.claim(host, ROOM, now=clock.now())
        await store.requests.answer([Answered(reference(task), DONE)], now=clock.now())

        found = await store.requests.withdraw(alice.owner, [reference(task)], now=clock.now())

        assert found[reference(task)].reply == DONE
        assert await store.requests.standing([task.key]) == [found[reference(task)]]

    async def test_only_who_holds_the_task_can_withdraw(
        self, store: Store, clock: ManualClock, alice: Holder, bob: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        await taken_away(store, clock, task)
        await bob.claim()

        assert await store.requests.withdraw(alice.owner, [reference(task)], now=clock.now()) == {}

        assert keys(await store.requests.claim(host, ROOM, now=clock.now())) == ["charge:1"]

    # Hosts that end

    async def test_what_a_dead_host_left_is_told_apart_and_a_reply_of_its_still_counts(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner, leader: Leader
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        await store.requests.claim(host, ROOM, now=clock.now())
        clock.pass_time(LEASE + SECOND)
        await store.beat(alice.owner, now=clock.now())

        await store.supervision.bury(leader, lease=LEASE, now=clock.now())

        [left] = await store.requests.standing([task.key])
        assert left.broken_off is BrokenOff.DIED
        [counted] = await store.supervision.recoveries(since=BEGINNING)
        assert (counted.workflow, counted.agent, counted.number) == ("ship", "bank", 1)
        assert await store.requests.held(host) == []
        # The attempt is still the current one: nobody has begun another.
        assert await store.requests.answer([Answered(reference(task), DONE)], now=clock.now()) == [True]
        [answered] = await store.requests.standing([task.key])
        assert answered.answer() == Completed(b'"receipt"')

    async def test_a_host_that_stops_is_blamed_for_nothing(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        task = await alice.hold()
        other = a_step(StepState.RUNNING, key="charge:2")
        await ask(alice, task, RUNNING, other)
        await store.requests.claim(host, ROOM, now=clock.now())
        await store.requests.withdraw(alice.owner, [reference(task, "charge:2")], now=clock.now())

        await store.retire(host, now=clock.now())

        [left] = await store.requests.standing([task.key])
        assert (left.reference.step, left.broken_off) == ("charge:1", BrokenOff.STOPPED)
        assert await store.supervision.recoveries(since=BEGINNING) == []

    # Who is told

    async def test_hosts_are_told_of_requests_and_schedulers_of_replies(
        self, store: Store, clock: ManualClock, alice: Holder, host: Owner
    ) -> None:
        heard: list[Changes] = []
        task = await alice.hold()
        stop_listening = store.listen(heard.append)

        await ask(alice, task)
        assert any(one.requests for one in heard)
        await store.requests.claim(host, ROOM, now=clock.now())
        await store.requests.answer([Answered(reference(task), DONE)], now=clock.now())
        assert any(task.key in one.replied for one in heard)
        stop_listening()

    async def test_what_nobody_asks_for_is_forgotten(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        task = await alice.hold()
        await ask(alice, task)
        clock.pass_time(INSTANCES_KEPT + 60 * SECOND)

        await Holder.joined(store, clock, "newcomer")

        assert await store.requests.standing([task.key]) == []
