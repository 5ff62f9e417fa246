"""A store with something of everything in it, written by the store's own verbs.

Only names that the oldest release knows of which a dump is to be made: `keep` runs on its code, too. Nothing
here depends on chance or on the time of day, so that the same release always writes the same.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from backstay.domain.access import Role, Token
from backstay.domain.alert import AlertKind, NewAlert
from backstay.domain.audit import Act
from backstay.domain.control import Control, Subject
from backstay.domain.instants import micros
from backstay.domain.jobs.deciding import put_job
from backstay.domain.jobs.documents import replaced
from backstay.domain.jobs.occurrences import WORKFLOW as OCCURRENCE
from backstay.domain.jobs.records import Collection, CollectionId, JobRecord
from backstay.domain.message import Action, Queue, Subscription
from backstay.domain.operate import cancel
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure, StepKind, StepRecord, UndoKind
from backstay.domain.task import TaskRecord
from backstay.jobs.ticker import Ticker
from backstay.settings import Settings
from backstay.store.base import NewInstance, Runnable, Store
from backstay.store.jobs import CollectionSeen, JobSeen
from backstay.store.records import AlertFilter, Remembered
from backstay.store.requests import Mail as Post
from backstay.store.supervision import Round
from backstay.testing import ManualClock
from backstay.testing.promises.calendar import Calendar, occurrence_of
from backstay.testing.promises.holder import Holder
from backstay.testing.promises.mail import Mail
from backstay.testing.promises.readers import Reader, a_start, set_aside
from backstay.testing.promises.requests import sent
from backstay.testing.records import a_step, held, let_go, new_task, replace

#: Long past, whenever it is opened: what was to come has come.
BEGINNING = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)

SHIP = Runnable("ship", 1, timedelta(minutes=10))
NAP = Runnable("nap", 1, timedelta(minutes=10))
APPROVE = Runnable("approve", 1, timedelta(minutes=10))
ORDER = Runnable("order", 1, timedelta(minutes=10))
PACK = Runnable("pack", 1, timedelta(minutes=10))
JOBS = Runnable(OCCURRENCE, 1, timedelta(minutes=10))

REFUSED = Failure("Refused", "the bank said no", step="charge:1", permanent=True)
#: A value that is kept beside its row.
LARGE = b'"' + b"large " * 20 + b'"'
#: Of which on a large value is: small enough for a dump that can be read.
INLINE_BYTES_MAX = 100

PLACE = CollectionId("sub", "rg", "jc")
SECRET = "a password of nobody"
TO_QUEUE: dict[str, Any] = {
    "type": "ServiceBusQueue",
    "serviceBusQueueMessage": {
        "queueName": "rings",
        "namespace": "shop",
        "message": "it is time",
        "transportType": "amqp",
    },
    "retryPolicy": {"retryType": "None"},
}
TO_SERVICE: dict[str, Any] = {
    "type": "Http",
    "request": {
        "uri": "http://127.0.0.1:9/",
        "method": "GET",
        "authentication": {"type": "Basic", "username": "ann", "password": SECRET},
    },
    "retryPolicy": {"retryType": "None"},
}


async def fill(store: Store) -> None:
    """Write it all into an open store that is empty."""
    clock = ManualClock(BEGINNING)
    await Tasks(store, clock).write()
    await _requests(store, clock)
    await _queues(store, clock)
    await _groups(store, clock)
    await _jobs(store, clock)
    await _records(store, clock)


class Tasks:
    """Tasks and steps in every state, signals, children, large values."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self._store = store
        self._clock = clock

    async def write(self) -> None:
        self._alice = await Holder.joined(
            self._store, self._clock, "alice", runs=(SHIP, NAP, APPROVE, ORDER, PACK)
        )
        await self._settled()
        await self._undoing()
        await self._waiting()
        await self._family()
        await self._at_work()

    async def _hold(self, id: str, run: Runnable = SHIP, **fields: Any) -> TaskRecord:
        task = new_task(id, workflow=run.workflow, **{"input": b"7", **fields})
        await self._store.submit([task], now=self._clock.now())
        [claimed] = await self._alice.claim(runs=[run])
        self._clock.pass_time(SECOND)
        return claimed.task

    def _step(self, state: StepState, key: str = "charge:1", **fields: Any) -> StepRecord:
        return _at(self._clock.now(), a_step(state, key=key, input=b"7", **fields))

    def _wait(self, kind: StepKind, key: str, operation: str, **fields: Any) -> StepRecord:
        now = self._clock.now()
        state = StepState.RUNNING
        return StepRecord(
            **{"task_key": 1, "input": b"null", **fields},
            key=key,
            kind=kind,
            operation=operation,
            state=state,
            started_at=now,
        )

    async def _charged(self, task: TaskRecord, **fields: Any) -> StepRecord:
        """The first step, in the two moves that it makes."""
        await self._write(task, self._step(StepState.RUNNING, undo=UndoKind.AUTOMATIC))
        done = self._step(
            StepState.COMPLETED, **{"output": b'"receipt 7"', "undo": UndoKind.AUTOMATIC, **fields}
        )
        await self._write(task, done)
        return done

    async def _write(self, task: TaskRecord, /, *steps: StepRecord, **changed: Any) -> None:
        assert await self._alice.write(task, steps=steps, **changed) is None

    async def _settled(self) -> None:
        task = await self._hold("processed", attributes={"customer": "ann"})
        await self._charged(task)
        await self._alice.leave(task, TaskState.PROCESSED, output=b'"receipt 7"')

        task = await self._hold("large", input=LARGE)
        await self._charged(task, output=LARGE)
        await self._alice.leave(task, TaskState.PROCESSED, output=LARGE)

        task = await self._hold("error")
        await self._write(task, self._step(StepState.RUNNING))
        failed = self._step(StepState.FAILED, failure_count=1, error=REFUSED, position=1, unsure=True)
        trouble = NewAlert(
            kind=AlertKind.TASK_ERROR,
            message="Refused: the bank said no",
            target="task:error",
            task_id="error",
            step="charge:1",
        )
        await self._write(task, failed, task=let_go(task, TaskState.ERROR, error=REFUSED), alerts=[trouble])

        plan = tuple(
            a_step(StepState.PENDING, key=key, task_key=0, input=None) for key in ("charge:1", "charge:2")
        )
        await self._store.submit(
            [new_task("cancelled", input=b"7", plan=plan, hard_end=self._clock.now() + HOUR)],
            now=self._clock.now(),
        )
        await self._cancel("cancelled", reason="ordered twice")

    async def _cancel(self, id: str, *, reason: str | None) -> None:
        act = Act(who="ann", action="cancel", target=f"task:{id}", reason=reason)
        await self._store.amend(id, partial(cancel, undo=False), now=self._clock.now(), act=act)

    async def _undoing(self) -> None:
        for state, ended in (
            (TaskState.UNDONE, StepState.UNDONE),
            (TaskState.UNDO_FAILED, StepState.UNDO_FAILED),
        ):
            task = await self._hold(state.value)
            done = await self._charged(task)
            undoing = replace(done, state=StepState.UNDOING, undo_attempt=1)
            failed = self._step(
                StepState.FAILED, "send:1", operation="send", failure_count=1, error=REFUSED, position=2
            )
            reopened = held(task, TaskState.UNDOING, error=REFUSED)
            skipped = self._step(StepState.SKIPPED, "pack:1", operation="pack")
            await self._write(task, undoing, failed, skipped, task=reopened)
            failures = 1 if ended is StepState.UNDO_FAILED else 0
            await self._alice.leave(
                reopened, state, steps=[replace(undoing, state=ended, undo_failures=failures)]
            )

    async def _waiting(self) -> None:
        until = self._clock.now() + 10 * SECOND
        task = await self._hold("sleeping", NAP)
        sleep = self._wait(StepKind.SLEEP, "sleep:1", "sleep", complete_by=until, input=b"10.0")
        await self._alice.leave(task, TaskState.WAITING, steps=[sleep], wake_at=until)

        task = await self._hold("approving", APPROVE)
        wait = self._wait(StepKind.SIGNAL, "wait_for-approved:1", "approved")
        await self._alice.leave(task, TaskState.WAITING, steps=[wait])

        # Two signals, of which the task has heard the first.
        task = await self._hold("signalled", APPROVE)
        now = self._clock.now()
        await self._store.signal("signalled", "approved", b"true", dedup="once", now=now)
        heard = replace(wait, state=StepState.COMPLETED, output=b"true", ended_at=now, position=1)
        await self._write(task, heard, consumed=[(1, heard.key)])
        await self._alice.leave(task, TaskState.PROCESSED, output=b"true")

    async def _family(self) -> None:
        task = await self._hold("parent", ORDER)
        child = new_task(
            "parent:start-pack:1",
            workflow="pack",
            input=b"7",
            parent_key=task.key,
            parent_step="start-pack:1",
        )
        wait = self._wait(
            StepKind.CHILD, "start-pack:1", "parent:start-pack:1", input=b"7", undo=UndoKind.AUTOMATIC
        )
        await self._write(task, wait, children=[child])
        await self._alice.leave(task, TaskState.WAITING)

    async def _at_work(self) -> None:
        """What nobody has begun, and what was under way when the process ended."""
        task = await self._hold("processing")
        await self._write(task, self._step(StepState.RUNNING, undo=UndoKind.AUTOMATIC))
        await self._hold("asked")
        await self._cancel("asked", reason=None)
        task = await self._hold("undoing")
        done = await self._charged(task)
        undoing = replace(done, state=StepState.UNDOING, undo_attempt=1)
        await self._alice.leave(task, TaskState.UNDOING, steps=[undoing], error=REFUSED)
        await self._store.submit(
            [new_task("pending", input=b"7", attributes={"customer": "bob"})], now=self._clock.now()
        )
        await self._store.signal("pending", "early", b"1", dedup=None, now=self._clock.now())


def _at(now: datetime, step: StepRecord) -> StepRecord:
    """A step of a test, at another time."""
    shift = now - (step.started_at or now)
    return replace(
        step,
        **{
            name: None if value is None else value + shift
            for name in ("started_at", "ended_at", "complete_by")
            for value in [getattr(step, name)]
        },
    )


async def _requests(store: Store, clock: ManualClock) -> None:
    """A step that an agent in another process is asked for."""
    runs = (Runnable("remote", 1, timedelta(minutes=10)),)
    bob = await Holder.joined(store, clock, "bob", runs=runs)
    await store.submit([new_task("remote", workflow="remote", input=b"7")], now=clock.now())
    [claimed] = await bob.claim(runs=runs)
    running = _at(clock.now(), a_step(StepState.RUNNING, input=b"7", agent="far"))
    request = replace(sent(claimed.task, running, input=b"7"), complete_by=micros(clock.now() + HOUR))
    post = Post(sent=[request])
    assert await bob.write(claimed.task, steps=[running], mail=post) is None
    host = NewInstance(id="host", host="localhost", pid=2, roles=("agents",))
    await store.register(host, now=clock.now())


async def _queues(store: Store, clock: ManualClock) -> None:
    mail = Mail(store.queues, clock)
    await mail.declare(max_deliveries=2)
    await mail.declare("rings")
    await mail.declare("desk")
    await store.queues.declare_topic("prices", now=clock.now())
    for name, where in (("all", {}), ("red", {"color": "red"})):
        one = Subscription(topic="prices", name=name, where=dict(where))
        await store.queues.subscribe(one, Queue(name=one.queue), now=clock.now())
    await mail.send({"price": 7}, to="prices", topic=True, id="p1", properties={"color": "red"})
    await mail.send({"price": 8}, to="prices", topic=True, id="p2", properties={"color": "blue"})

    await mail.send("dead", id="dead")
    await mail.settle(await mail.one(), Action.DEAD_LETTER, reason="bad address", detail="no such street")
    await mail.send("deferred", id="deferred")
    await mail.settle(await mail.one(), Action.DEFER)
    await mail.send("conflict", id="conflict")
    for _ in range(2):
        clock.pass_time(SECOND)
        question = NewAlert(kind=AlertKind.SUBMISSION_CONFLICT, message="which one?", target="queue:orders")
        await mail.settle(await mail.one(), Action.ABANDON, alert=question)
    await mail.send("locked", id="locked")
    await mail.one()
    await mail.send("later", id="later", at=clock.now() + HOUR)
    await mail.send("ready", id="ready", priority=3, properties={"n": 1})
    for body in ("first", "behind"):
        await mail.send(body, id=body, session="s")

    told = new_task("told", input=b"7", reply_to="queue:desk")
    await store.submit([told], now=clock.now())


async def _groups(store: Store, clock: ManualClock) -> None:
    runs = (SHIP,)
    carol = await Holder.joined(store, clock, "carol", runs=runs)
    reader = Reader(store, clock, carol.owner)
    first, second = sorted(await reader.hold(0, 1), key=lambda one: one.partition)
    await reader.advance(first, to=5, starts=[a_start("from-stream", 3, input=b"7")])
    await reader.advance(second, to=2, quarantined=[set_aside(1, partition=1, key="k", id="e1")])
    await reader.advance(second, to=9, quarantined=[set_aside(7, partition=1, reason="again")])
    newest = (await reader.quarantine())[-1]
    act = Act(who="ann", action="resubmit", target="stream:telemetry")
    await store.groups.resubmit("telemetry", [newest.id], limit=1, act=act, now=clock.now())


async def _jobs(store: Store, clock: ManualClock) -> None:
    act = Act(who="ann", action="put", target="job:jc")
    ticker = await Holder.joined(store, clock, "ticker", runs=(JOBS,))

    def collection(_seen: CollectionSeen) -> Collection:
        return Collection(id=PLACE, location="West US", tags={"team": "shop"})

    await store.jobs.put_collection(PLACE, collection, act=act, now=clock.now())
    hourly = {"frequency": "hour", "interval": 1}
    for name, properties in (
        ("hourly", {"action": TO_QUEUE, "recurrence": hourly}),
        ("nightly", {"action": TO_SERVICE, "recurrence": {"frequency": "day"}, "state": "disabled"}),
        ("once", {"action": TO_QUEUE, "startTime": "2026-01-05T13:00:00Z"}),
        ("deleted", {"action": TO_QUEUE, "recurrence": hourly}),
    ):
        await _put(store, name, properties, act=act, now=clock.now())
    await store.jobs.delete_job(PLACE, "deleted", act=act, now=clock.now())
    await _occur(store, clock, ticker)


async def _put(store: Store, name: str, properties: dict[str, Any], *, act: Act, now: datetime) -> None:
    def decide(seen: JobSeen) -> JobRecord:
        new = JobRecord(
            uid=f"uid-{name}", collection=PLACE, name=name, definition={}, created_at=now, updated_at=now
        )
        return put_job(
            new,
            replaced({"properties": properties}),
            collection=seen.collection,
            job=seen.job,
            jobs=seen.jobs,
            delay=20 * SECOND,
            now=now,
        )

    await store.jobs.put_job(PLACE, name, decide, act=act, now=now)


async def _occur(store: Store, clock: ManualClock, holder: Holder) -> None:
    """An instant comes, and is at work when the next one does; what became of it is told."""
    ticker = Ticker(store, holder.owner, settings=Settings(), clock=clock)
    calendar = Calendar(store, clock, holder.owner)
    for _ in range(2):
        clock.pass_time(HOUR + SECOND)
        assert await ticker.run_once() > 0
    hourly = await store.jobs.job(PLACE, "hourly")
    for retry, failed in ((0, True), (1, False)):
        attempt = calendar.attempt(occurrence_of(hourly), failed=failed, retry=retry)
        assert await calendar.record(attempt) == [True]
    for claimed in await holder.claim(runs=[JOBS]):
        if claimed.task.attributes["job"] == "hourly":
            await holder.leave(claimed.task, TaskState.PROCESSED, output=b"null")


async def _records(store: Store, clock: ManualClock) -> None:
    for name, role in (("ci", Role.SUBMIT), ("gone", Role.ADMIN)):
        token = Token(name=name, role=role, digest=f"digest of {name}", created_at=clock.now())
        act = Act(who="ann", action="create", target=f"token:{name}")
        await store.records.add_token(token, act, now=clock.now())
    await store.records.revoke_token(
        "gone", Act(who="ann", action="revoke", target="token:gone"), now=clock.now()
    )

    now = clock.now()

    def paused(_known: Control | None) -> Control:
        return Control(subject=Subject.WORKFLOW, name="idle", paused=True, by="ann", reason="broken", at=now)

    act = Act(who="ann", action="pause", target="workflow:idle", reason="broken")
    await store.records.regulate(Subject.WORKFLOW, "idle", paused, act, now=now)

    leader = await store.supervision.lead("supervisor", lease=15 * SECOND, now=now)
    agent = Control(subject=Subject.AGENT, name="slow", paused=True, by="supervisor", at=now)
    await store.supervision.hold_back(leader, agent, message="too many recoveries", now=now)
    await store.supervision.record_round(leader, Round(at=now, epoch=leader.epoch, woken=1))
    oldest = (await store.records.alerts(AlertFilter()))[-1]
    await store.records.acknowledge(
        oldest.id, Act(who="ann", action="acknowledge", target=f"alert:{oldest.id}"), now=now
    )
    await store.records.remember("key", Remembered(digest="digest", task_id="processed"), keep=HOUR, now=now)
