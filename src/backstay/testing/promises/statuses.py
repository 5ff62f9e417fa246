"""Submitters are told what becomes of their tasks: each thing once, with the commit that it tells of."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from backstay.domain.lease import Leader
from backstay.domain.message import NewMessage, Queue, Subscription
from backstay.domain.operate import complete_step, request_undo, resubmit
from backstay.domain.states import StepState, TaskState
from backstay.domain.status import failure_message
from backstay.domain.step import Failure, UndoKind
from backstay.domain.task import TaskRecord
from backstay.errors import IdConflict, InvalidInput, LeaseLost
from backstay.store.base import Store, Submitted
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import (
    CANCEL,
    LEASE,
    MANY,
    SECOND,
    Holder,
    Promises,
    applied,
    submitted,
    taken_away,
)
from backstay.testing.records import a_step, begun, done, held, let_go, new_task, replace

BROKEN = Failure("Broken", "the bank is shut", step="charge:1", permanent=True)


class Told:
    """A queue at which somebody wants to be told."""

    def __init__(self, store: Store, clock: ManualClock, name: str = "desk") -> None:
        self._store = store
        self._clock = clock
        self._name = name

    async def messages(self) -> list[Any]:
        """All that there is, in the order of receiving; it stays there."""
        return await self._store.queues.peek(self._name, limit=MANY)

    async def bodies(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(one.body) for one in await self.messages()]

    async def statuses(self, task_id: str = "t") -> list[tuple[str, int]]:
        return [(one["status"], one["sequence"]) for one in await self.bodies() if one["task_id"] == task_id]


class StatusPromises(Promises):
    @pytest.fixture
    async def desk(self, store: Store, clock: ManualClock) -> Told:
        await store.queues.declare(Queue(name="desk"), now=clock.now())
        return Told(store, clock)

    # Entering

    async def test_a_submission_is_told_with_the_commit_that_holds_it(
        self, store: Store, clock: ManualClock, desk: Told
    ) -> None:
        """CC-4."""
        await submitted(store, clock, "t", reply_to="queue:desk")

        [message] = await desk.messages()
        assert message.id == "t:received:1"
        assert message.properties == {
            "task_id": "t",
            "workflow": "ship",
            "status": "received",
            "correlation_id": "t",
        }
        assert msgspec.json.decode(message.body) == {
            "task_id": "t",
            "workflow": "ship",
            "status": "received",
            "sequence": 1,
            "at": clock.now().isoformat().replace("+00:00", "Z"),
        }

    async def test_the_same_submission_again_and_one_in_conflict_tell_nothing_more(
        self, store: Store, clock: ManualClock, desk: Told
    ) -> None:
        same = new_task("t", reply_to="queue:desk")
        [first, again] = await store.submit([same, replace(same)], now=clock.now())
        [later] = await store.submit([same], now=clock.now())
        [other] = await store.submit([replace(same, input=b"2")], now=clock.now())

        answers = [isinstance(one, Submitted) and one.created for one in (first, again, later)]
        assert answers == [True, False, False]
        assert isinstance(other, IdConflict)
        assert await desk.statuses() == [("received", 1)]

    @pytest.mark.parametrize("reply_to", ["queue:nobody", "topic:desk"])
    async def test_a_submitter_who_cannot_be_told_is_refused_and_its_neighbours_are_not(
        self, store: Store, clock: ManualClock, desk: Told, reply_to: str
    ) -> None:
        batch = [new_task("a", reply_to="queue:desk"), new_task("t", reply_to=reply_to), new_task("b")]

        answers = await store.submit(batch, now=clock.now())

        assert [isinstance(answer, Submitted) for answer in answers] == [True, False, True]
        assert isinstance(answers[1], InvalidInput)
        assert "declare it first" in str(answers[1])
        assert set(await store.outcomes(["a", "t", "b"])) == {"a", "b"}
        assert [one["task_id"] for one in await desk.bodies()] == ["a"]

    async def test_a_topic_hands_out_what_its_subscriptions_ask_for(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await store.queues.declare_topic("news", now=clock.now())
        for name, where in (("all", {}), ("ends", {"status": "completed"})):
            one = Subscription(topic="news", name=name, where=dict(where))
            await store.queues.subscribe(one, Queue(name=one.queue), now=clock.now())

        await alice.leave(await alice.hold("t", reply_to="topic:news"), TaskState.PROCESSED)

        everything = Told(store, clock, "news:all")
        assert await everything.statuses() == [("received", 1), ("started", 2), ("completed", 3)]
        assert await Told(store, clock, "news:ends").statuses() == [("completed", 3)]

    async def test_a_queue_of_sessions_has_one_for_each_task(
        self, store: Store, clock: ManualClock, alice: Holder
    ) -> None:
        await store.queues.declare(Queue(name="desk", sessions=True), now=clock.now())

        await alice.leave(await alice.hold("t", reply_to="queue:desk"), TaskState.PROCESSED)

        desk = Told(store, clock)
        assert {one.session for one in await desk.messages()} == {"t"}
        assert sorted(await desk.statuses()) == [("completed", 3), ("received", 1), ("started", 2)]

    async def test_the_longest_id_has_messages_with_ids_of_their_own(
        self, store: Store, clock: ManualClock, alice: Holder, desk: Told
    ) -> None:
        await alice.leave(await alice.hold("t" * 200, reply_to="queue:desk"), TaskState.PROCESSED)

        ids = [message.id for message in await desk.messages()]
        assert len(set(ids)) == len(ids) == 3
        assert max(map(len, ids)) <= 200

    # Running

    async def test_the_first_write_of_a_run_tells_that_it_started_and_no_later_one_does(
        self, store: Store, alice: Holder, desk: Told
    ) -> None:
        task = await alice.hold("t", reply_to="queue:desk")
        assert await desk.statuses() == [("received", 1)]  # A claim is nothing that the run wrote.

        running = a_step(StepState.RUNNING)
        assert await alice.write(task, steps=[begun(running)]) is None
        assert await desk.statuses() == [("received", 1), ("started", 2)]

        assert await alice.write(task, steps=[done(a_step(StepState.COMPLETED))]) is None
        await alice.leave(task, TaskState.PROCESSED, output=b'{"by": "road"}')

        assert await desk.statuses() == [("received", 1), ("started", 2), ("completed", 3)]
        assert (await desk.bodies())[-1]["output"] == {"by": "road"}

    async def test_all_that_a_run_writes_at_once_is_told_in_order(
        self, store: Store, alice: Holder, desk: Told
    ) -> None:
        task = await alice.hold("t", reply_to="queue:desk")

        answers = await applied(
            store,
            alice.turn(task, steps=[begun(a_step(StepState.RUNNING))]),
            alice.turn(task, steps=[done(a_step(StepState.COMPLETED))]),
            alice.turn(task, task=let_go(task, TaskState.PROCESSED)),
        )

        assert answers == [None, None, None]
        assert await desk.statuses() == [("received", 1), ("started", 2), ("completed", 3)]

    async def test_a_run_that_died_before_its_first_write_told_nothing_and_the_next_tells_it_once(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder, bob: Holder, desk: Told
    ) -> None:
        await alice.hold("t", reply_to="queue:desk")
        clock.pass_time(LEASE + SECOND)
        await store.beat(bob.owner, now=clock.now())
        await store.supervision.bury(leader, lease=LEASE, now=clock.now())

        [claimed] = await bob.claim()
        assert await bob.write(claimed.task, steps=[a_step(StepState.RUNNING)]) is None

        assert await desk.statuses() == [("received", 1), ("started", 2)]

    async def test_a_run_that_goes_on_after_another_does_not_start_again(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder, bob: Holder, desk: Told
    ) -> None:
        task = await alice.hold("t", reply_to="queue:desk")
        assert await alice.write(task, steps=[a_step(StepState.RUNNING)]) is None
        clock.pass_time(LEASE + SECOND)
        await store.beat(bob.owner, now=clock.now())
        await store.supervision.bury(leader, lease=LEASE, now=clock.now())

        [claimed] = await bob.claim()
        await bob.leave(claimed.task, TaskState.PROCESSED, steps=[a_step()])

        assert await desk.statuses() == [("received", 1), ("started", 2), ("completed", 3)]

    async def test_a_refused_write_tells_nothing(
        self, store: Store, clock: ManualClock, alice: Holder, desk: Told
    ) -> None:
        task = await alice.hold("t", reply_to="queue:desk")
        await taken_away(store, clock, task)

        assert isinstance(await alice.write(task, task=let_go(task, TaskState.PROCESSED)), LeaseLost)

        assert await desk.statuses() == [("received", 1)]

    async def test_a_write_against_the_rules_tells_nothing_and_its_neighbours_are_told(
        self, store: Store, alice: Holder, desk: Told
    ) -> None:
        bad = await alice.hold("bad", reply_to="queue:desk")
        good = await alice.hold("t", reply_to="queue:desk")

        refused, written = await applied(
            store,
            alice.turn(bad, task=held(bad, TaskState.UNDONE)),
            alice.turn(good, task=let_go(good, TaskState.PROCESSED)),
        )

        assert refused is not None
        assert written is None
        assert await desk.statuses("bad") == [("received", 1)]
        assert await desk.statuses() == [("received", 1), ("started", 2), ("completed", 3)]

    # What else goes with a write

    async def test_a_message_goes_with_its_write_or_not_at_all_and_one_for_nobody_holds_up_nothing(
        self, store: Store, clock: ManualClock, alice: Holder, desk: Told
    ) -> None:
        await store.queues.declare(Queue(name="single", sessions=True), now=clock.now())
        kept, taken = await alice.hold("t"), await alice.hold("taken")
        await taken_away(store, clock, taken)

        written, refused = await applied(
            store,
            alice.turn(
                kept,
                task=let_go(kept, TaskState.ERROR, error=BROKEN),
                messages=[_report(kept, to) for to in ("desk", "nobody", "single")],
            ),
            alice.turn(taken, task=let_go(taken, TaskState.ERROR), messages=[_report(taken, "desk")]),
        )

        assert written is None
        assert isinstance(refused, LeaseLost)
        [message] = await desk.messages()
        assert (message.id, message.body) == (f"t:failure:{kept.lock_number}", b'"t"')
        [single] = await Told(store, clock, "single").messages()
        assert single.session == "t"

    # Endings

    @pytest.mark.parametrize("state", [TaskState.ERROR, TaskState.CANCELLED])
    async def test_a_task_that_stops_has_failed(
        self, store: Store, alice: Holder, desk: Told, state: TaskState
    ) -> None:
        await alice.leave(await alice.hold("t", reply_to="queue:desk"), state, error=BROKEN)

        last = (await desk.bodies())[-1]
        assert (last["status"], last["sequence"]) == ("failed", 3)
        assert last["error"] == {
            "type": "Broken",
            "message": "the bank is shut",
            "step": "charge:1",
            "permanent": True,
        }
        assert "output" not in last

    @pytest.mark.parametrize(
        ("state", "status"), [(TaskState.UNDONE, "undone"), (TaskState.UNDO_FAILED, "failed")]
    )
    async def test_an_undo_is_told_by_how_it_ends(
        self, store: Store, alice: Holder, desk: Told, state: TaskState, status: str
    ) -> None:
        task = await alice.hold("t", reply_to="queue:desk")
        step = a_step(undo=UndoKind.AUTOMATIC)
        assert await alice.write(task, steps=[replace(step, **_running())]) is None
        undoing = held(task, TaskState.UNDOING, error=BROKEN)
        assert await alice.write(task, steps=[step], task=undoing) is None
        await alice.leave(undoing, state, error=BROKEN)

        assert await desk.statuses() == [("received", 1), ("started", 2), (status, 3)]
        assert (await desk.bodies())[-1]["error"]["type"] == "Broken"

    async def test_a_task_that_waits_and_goes_on_is_not_told_of(
        self, store: Store, clock: ManualClock, leader: Leader, alice: Holder, desk: Told
    ) -> None:
        task = await alice.hold("t", reply_to="queue:desk")
        await alice.leave(task, TaskState.WAITING, parked=True, wake_at=clock.now())
        await store.supervision.wake(leader, now=clock.now(), limit=MANY)

        [claimed] = await alice.claim()
        await alice.leave(claimed.task, TaskState.PROCESSED)

        assert await desk.statuses() == [("received", 1), ("started", 2), ("completed", 3)]

    # Operators

    async def test_a_cancelled_task_that_never_ran_has_failed_without_having_started(
        self, store: Store, clock: ManualClock, desk: Told
    ) -> None:
        await submitted(store, clock, "t", reply_to="queue:desk")

        await store.amend("t", CANCEL, now=clock.now())

        assert await desk.statuses() == [("received", 1), ("failed", 2)]
        assert (await desk.bodies())[-1]["error"]["type"] == "Cancelled"

    async def test_a_resubmitted_task_starts_again_once_it_runs_again(
        self, store: Store, clock: ManualClock, alice: Holder, desk: Told
    ) -> None:
        await alice.leave(await alice.hold("t", reply_to="queue:desk"), TaskState.ERROR)
        await store.amend("t", partial(resubmit, from_="start"), now=clock.now())
        assert await desk.statuses() == [("received", 1), ("started", 2), ("failed", 3)]

        [claimed] = await alice.claim()
        await alice.leave(claimed.task, TaskState.PROCESSED)

        again = [("started", 4), ("completed", 5)]
        assert await desk.statuses() == [("received", 1), ("started", 2), ("failed", 3), *again]

    async def test_what_was_completed_and_is_undone_later_is_told_as_undone(
        self, store: Store, clock: ManualClock, alice: Holder, desk: Told
    ) -> None:
        task = await alice.hold("t", reply_to="queue:desk")
        await alice.leave(task, TaskState.PROCESSED, steps=[a_step(undo=UndoKind.AUTOMATIC)])
        await store.amend("t", request_undo, now=clock.now())

        [claimed] = await alice.claim()
        await alice.leave(claimed.task, TaskState.UNDONE)

        assert (await desk.statuses())[2:] == [("completed", 3), ("undone", 4)]

    async def test_a_request_to_whoever_holds_a_task_tells_nothing_by_itself(
        self, store: Store, clock: ManualClock, alice: Holder, desk: Told
    ) -> None:
        await alice.hold("t", reply_to="queue:desk")

        await store.amend("t", CANCEL, now=clock.now())

        assert await desk.statuses() == [("received", 1)]

    async def test_a_step_that_a_person_completed_tells_nothing_and_the_task_starts_again(
        self, store: Store, clock: ManualClock, alice: Holder, desk: Told
    ) -> None:
        task = await alice.hold("t", reply_to="queue:desk")
        await alice.leave(task, TaskState.ERROR, steps=[a_step(StepState.FAILED)])
        by_hand = partial(complete_step, key="charge:1", output=b"1", now=clock.now())
        await store.amend("t", by_hand, now=clock.now())

        [claimed] = await alice.claim()
        await alice.leave(claimed.task, TaskState.PROCESSED)

        assert (await desk.statuses())[2:] == [("failed", 3), ("started", 4), ("completed", 5)]


def _running() -> dict[str, Any]:
    running = a_step(StepState.RUNNING)
    return {
        name: getattr(running, name) for name in ("state", "output", "position", "ended_at", "complete_by")
    }


def _report(task: TaskRecord, queue: str) -> NewMessage:
    return failure_message(task, queue=queue, body=b'"%s"' % task.id.encode())
