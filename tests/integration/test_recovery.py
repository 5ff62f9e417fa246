"""Recovery: whatever stops, hangs or fills up, the work goes on, and nobody is blamed wrongly."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backstay import App, Recovery, Retry, StepFailed, TaskFailed, current_step
from backstay.domain.lease import Owner
from backstay.errors import Closed, InvalidDefinition, StoreFull, StoreUnavailable
from backstay.observe import INSTANCE_DEAD, LEASE_LOST, counters
from backstay.store.base import Claimed, Report, Standing
from backstay.store.sqlite import SqliteStore
from backstay.store.supervision import Freed
from backstay.supervisor import sweep
from tests.support.databases import AnyStore, Database, SqliteDatabase
from tests.support.leading import free_lead, seize_lead
from tests.support.running import eventually
from tests.support.stores import DyingStore, PatientStore

FAST: dict[str, Any] = {"supervisor_period": "20ms", "heartbeat": "1s", "lease": "10s"}
ONCE = Retry(attempts=1)
SOON = 10.0
AN_HOUR = timedelta(hours=1)


class StalledStore(AnyStore):
    """A scheduler on this store learns nothing new, and gives no sign of life, before it is ``awake``."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.awake = asyncio.Event()
        self.awake.set()

    async def beat(self, owner: Owner, *, now: datetime, report: Report | None = None) -> None:
        await self.awake.wait()
        await super().beat(owner, now=now, report=report)

    async def claim(self, owner: Owner, runs: Any, *, limit: int, now: datetime) -> list[Claimed]:
        await self.awake.wait()
        return await super().claim(owner, runs, limit=limit, now=now)


class Shop:
    """An order of two steps; the second one waits until the test lets it go on."""

    def __init__(self, *, complete_by: str = "10m", idempotent: bool = True, **recovery: Any) -> None:
        self.app = App("shop")
        self.paid: list[str] = []
        self.sent: list[int] = []
        self.refunded: list[str] = []
        self.began = asyncio.Event()
        self.open = asyncio.Event()
        agent = self.app.agent("shop", retry=ONCE)

        @agent.step
        async def pay() -> str:
            self.paid.append(current_step().idempotency_key)
            return "paid"

        @pay.undo
        async def refund(*, result: str | None) -> None:
            self.refunded.append(str(result))

        @agent.step(idempotent=idempotent)
        async def send() -> str:
            self.sent.append(current_step().attempt)
            self.began.set()
            await self.open.wait()
            return f"sent at attempt {current_step().attempt}"

        @self.app.workflow(complete_by=complete_by, recovery=Recovery(**recovery))
        async def order() -> str:
            await pay()
            return await send()

        self.order = order

    async def at_work(self) -> None:
        await asyncio.wait_for(self.began.wait(), SOON)
        self.began.clear()

    async def crash(self, database: Database) -> None:
        """Run until the second step is at work, and die."""
        async with self.app.run(database.store_as(DyingStore), **FAST | database.heir()):
            await self.app.submit(self.order, id="t")
            await self.at_work()


def record(database: Database, task_id: str = "t") -> dict[str, Any]:
    """What is recorded of a task: its state, whose it is, and who is blamed for what."""
    names = ("state", "locked_by", "complete_by", "failure_count", "crash_count")
    [row] = database.rows(f"SELECT {', '.join(names)} FROM task WHERE id = ?", task_id)
    return dict(zip(names, row, strict=True))


async def until(app: App, task_id: str, *states: str) -> Any:
    return await eventually(lambda: app.task(task_id), lambda task: task.state in states, what=task_id)


async def ends(app: App, task_id: str) -> TaskFailed:
    with pytest.raises(TaskFailed) as failed:
        await app.handle(task_id).result(SOON)
    return failed.value


# A process dies


async def test_a_dead_instances_task_is_finished_by_another_from_where_it_stood(database: Database):
    """Promises 2 and 5: the completed step is not run again, the interrupted one is, under its own key."""
    shop = Shop()
    await shop.crash(database)
    assert record(database)["state"] == "processing"

    shop.open.set()
    async with shop.app.run(database.url, **FAST | database.heir()):
        assert await shop.app.handle("t").result(SOON) == "sent at attempt 2"
        steps = {step.key: step for step in await shop.app.steps("t")}

    assert shop.paid == ["t/pay:1"]
    assert shop.sent == [1, 2]
    assert (steps["send:1"].attempt, steps["send:1"].failure_count) == (2, 0)
    assert record(database)["failure_count"] == 0


async def test_an_app_that_runs_beside_it_takes_over(database: Database):
    """At once on SQLite, where the operating system's lock tells of the death; else after the lease."""
    shop, heir, store = Shop(), Shop(), database.store_as(StalledStore)
    heir.open.set()
    store.awake.clear()  # Not before the other has the task.
    async with heir.app.run(store, **{**FAST, "lease": "1h", "heartbeat": "20m", **database.heir()}):
        await shop.crash(database)
        store.awake.set()
        assert await heir.app.handle("t").result(SOON) == "sent at attempt 2"

    assert (len(shop.paid), len(heir.paid)) == (1, 0)


CHILD = """
import asyncio
from backstay import App, Retry, current_step

app = App("child")
agent = app.agent("shop")
calls = []
hang = True


@agent.step
async def pay() -> str:
    calls.append(f"pay {current_step().attempt}")
    return "paid"


@agent.step
async def send() -> str:
    calls.append(f"send {current_step().attempt}")
    if hang:
        print("at work", flush=True)
        await asyncio.sleep(3600)
    return f"sent at attempt {current_step().attempt}"


@app.workflow
async def order() -> str:
    await pay()
    return await send()
"""

RUN_CHILD = """
import sys

async def main():
    async with app.run(sys.argv[1], **dict(setting.split("=") for setting in sys.argv[2:])):
        await app.submit(order, id="t")
        await asyncio.sleep(3600)

asyncio.run(main())
"""


async def test_a_killed_process_loses_nothing(database: Database):
    """Promise 5: kill -9 in the middle of a step; the work goes on here, without a person."""
    # It leads as well: its lead is taken over when its own lease is over.
    settings = [f"{name}={value}" for name, value in (FAST | database.heir()).items()]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD + RUN_CHILD, database.url, *settings, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        assert await asyncio.wait_for(child.stdout.readline(), 30) == b"at work\n"
    finally:
        child.send_signal(signal.SIGKILL)
        await child.wait()

    here: dict[str, Any] = {}
    exec(CHILD, here)
    here["hang"] = False
    async with here["app"].run(database.url, **FAST | database.heir()) as app:
        assert await app.handle("t").result(SOON) == "sent at attempt 2"

    assert here["calls"] == ["send 2"]


async def test_crashes_are_counted_apart_and_compared_with_their_own_limit(database: Database):
    """DESIGN §4: a few kill -9 never undo an innocent task, whatever Recovery.attempts says."""
    shop = Shop(attempts=1, crashes=4)
    for _ in range(3):
        await shop.crash(database)

    shop.open.set()
    async with shop.app.run(database.url, **FAST | database.heir()):
        assert await shop.app.handle("t").result(SOON) == "sent at attempt 4"

    assert record(database)["failure_count"] == 0
    assert len(shop.paid) == 1


async def test_a_task_that_comes_further_each_time_outlives_any_number_of_processes(database: Database):
    """Nothing that it does kills a process, so it is not blamed for those that were killed around it."""
    app, hangs, done = App("long"), asyncio.Queue[int](), set[int]()

    @app.agent("worker", retry=ONCE).step
    async def work(number: int) -> None:
        if number not in done:
            hangs.put_nowait(number)
            await asyncio.Event().wait()

    @app.workflow(recovery=Recovery(crashes=2))
    async def long() -> str:
        for number in range(4):
            await work(number)
        return "done"

    for number in range(4):
        async with app.run(database.store_as(DyingStore), **FAST | database.heir()):
            await app.submit(long, id="t")
            assert await asyncio.wait_for(hangs.get(), SOON) == number
        done.add(number)

    async with app.run(database.url, **FAST | database.heir()):
        assert await app.handle("t").result(SOON) == "done"


@pytest.mark.parametrize(("then", "state"), [("undo", "undone"), ("error", "error"), ("wait", "error")])
async def test_a_task_that_kills_too_many_processes_is_not_run_again(
    database: Database, then: str, state: str
):
    """Whatever then says: waiting would only kill the next one."""
    shop = Shop(crashes=2, then=then)
    for _ in range(2):
        await shop.crash(database)

    async with shop.app.run(database.url, **FAST | database.heir()):
        failed = await ends(shop.app, "t")

    assert failed.state == state
    assert failed.error is not None
    assert failed.error["type"] == "Crashes"
    assert shop.sent == [1, 2]
    assert shop.refunded == (["paid"] if state == "undone" else [])


async def test_a_step_that_is_not_idempotent_is_not_repeated_after_a_crash(database: Database):
    """RT-4: nobody knows what it did, so it goes to then."""
    shop = Shop(idempotent=False, then="undo")
    await shop.crash(database)

    async with shop.app.run(database.url, **FAST | database.heir()):
        failed = await ends(shop.app, "t")

    assert (failed.state, failed.step) == ("undone", "send:1")
    assert failed.error is not None
    assert failed.error["type"] == "Interrupted"
    assert shop.sent == [1]
    assert shop.refunded == ["paid"]


# A process stops


async def test_a_graceful_stop_releases_its_tasks_and_blames_nobody(database: Database):
    shop = Shop(attempts=1, crashes=1)
    async with shop.app.run(database.url, **FAST):
        await shop.app.submit(shop.order, id="t")
        await shop.at_work()

    row = record(database)
    assert (row["state"], row["locked_by"], row["complete_by"]) == ("pending", None, None)
    assert (row["crash_count"], row["failure_count"]) == (0, 0)

    shop.open.set()
    async with shop.app.run(database.url, **FAST):
        assert await shop.app.handle("t").result(SOON) == "sent at attempt 2"

    assert len(shop.paid) == 1


async def test_a_graceful_stop_in_the_middle_of_an_undo_blames_nobody_either(database: Database):
    app = App("shop")
    agent = app.agent("shop", retry=ONCE)
    began, go_on = asyncio.Event(), asyncio.Event()

    @agent.step
    async def pay() -> None: ...

    @pay.undo
    async def refund() -> None:
        began.set()
        await go_on.wait()

    @app.workflow(recovery=Recovery(undo_attempts=1, crashes=1))
    async def order() -> None:
        await pay()
        raise StepFailed("x", {"type": "Permanent", "message": "", "permanent": True})

    async with app.run(database.url, **FAST):
        await app.submit(order, id="t")
        await asyncio.wait_for(began.wait(), SOON)
    assert (record(database)["state"], record(database)["locked_by"]) == ("undoing", None)

    go_on.set()
    async with app.run(database.url, **FAST):
        assert (await ends(app, "t")).state == "undone"


# A process is taken for dead, and lives


async def test_an_instance_declared_dead_is_refused_every_write_and_starts_again_under_a_new_id(
    database: Database,
):
    """Promise 3: it was only stalled, and wakes up too late; what it computed is dropped."""
    shop, store = Shop(), database.store_as(StalledStore)
    other = database.store()
    await other.open()
    try:
        async with shop.app.run(store, **FAST):
            handle = await shop.app.submit(shop.order, id="t")
            await shop.at_work()
            lost, dead = counters[LEASE_LOST], counters[INSTANCE_DEAD]

            store.awake.clear()
            [before] = await other.instances()
            now = datetime.now(UTC) + AN_HOUR  # noqa: TID251
            leader = await seize_lead(other, now=now)
            assert await other.supervision.bury(leader, lease=timedelta(0), now=now) == Freed(runs=1)
            shop.open.set()  # Its step answers now, to a scheduler that holds nothing any more.
            await eventually(
                lambda: _as_it_is(counters[LEASE_LOST] - lost), lambda seen: seen == 1, what="a refusal"
            )
            assert (record(database)["state"], record(database)["crash_count"]) == ("pending", 1)

            store.awake.set()
            assert await handle.result(SOON) == "sent at attempt 2"
            instances = {one.id: one.live for one in await other.instances()}
    finally:
        await other.close()

    assert counters[INSTANCE_DEAD] - dead == 1
    assert instances.pop(before.id) is False
    assert list(instances.values()) == [True]
    assert shop.sent == [1, 2]
    assert len(shop.paid) == 1


# A run hangs


async def test_a_run_past_its_complete_by_is_taken_away_and_begun_again(database: Database):
    """The failure is the run's: its step is attempted again without blame, its completed step is not."""
    shop = Shop(complete_by="500ms", attempts=2)
    async with shop.app.run(database.url, **FAST):
        handle = await shop.app.submit(shop.order, id="t")
        await shop.at_work()
        await shop.at_work()
        shop.open.set()
        assert await handle.result(SOON) == "sent at attempt 2"
        steps = {step.key: step for step in await shop.app.steps("t")}

    assert record(database)["failure_count"] == 1
    assert (steps["send:1"].attempt, steps["send:1"].failure_count) == (2, 0)
    assert len(shop.paid) == 1


async def test_the_run_that_takes_over_from_one_that_overran_is_the_only_one(database: Database):
    """In the same scheduler the second run may begin before the first one has heard of its loss."""

    class LateReader(AnyStore):
        async def standing(self, keys: Any) -> list[Standing]:
            await asyncio.sleep(0.1)
            return await super().standing(keys)

    app = App("shop")
    agent = app.agent("shop", retry=ONCE)
    began: dict[int, asyncio.Event] = {1: asyncio.Event(), 2: asyncio.Event()}
    first, cancelled = asyncio.Event(), asyncio.Event()

    @agent.step
    async def send() -> None:
        began[current_step().attempt].set()
        try:
            await (first if current_step().attempt == 1 else asyncio.Event()).wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    @app.workflow(complete_by="1s", recovery=Recovery(attempts=2))
    async def order() -> None:
        await send()

    async with app.run(database.store_as(LateReader), **FAST):
        await app.submit(order, id="t")
        await asyncio.wait_for(began[1].wait(), SOON)
        await asyncio.wait_for(began[2].wait(), SOON)
        assert cancelled.is_set()
        first.set()  # The first attempt, if it were still at work, would answer now.
        asked = time.monotonic()
        await app.cancel("t")
        failed = await ends(app, "t")

    assert failed.state == "cancelled"
    assert time.monotonic() - asked < 0.8  # and not only when the second run overruns as well


@pytest.mark.parametrize(("then", "state"), [("undo", "undone"), ("error", "error")])
async def test_a_run_that_overruns_too_often_goes_to_then(database: Database, then: str, state: str):
    shop = Shop(complete_by="500ms", attempts=2, then=then)
    async with shop.app.run(database.url, **FAST):
        await shop.app.submit(shop.order, id="t")
        failed = await ends(shop.app, "t")

    assert failed.state == state
    assert failed.error is not None
    assert failed.error["type"] == "Overrun"
    assert shop.sent == [1, 2]
    assert record(database)["failure_count"] == 2


async def test_a_task_that_only_stands_in_line_for_a_slot_does_not_overrun(database: Database):
    app = App("busy")
    counter = app.agent("counter", concurrency=1)
    gate = asyncio.Event()

    @counter.step
    async def hold() -> None:
        await gate.wait()

    @counter.step
    async def pass_through() -> str:
        return "served"

    @app.workflow
    async def occupy() -> None:
        await hold()

    @app.workflow(complete_by="2s", recovery=Recovery(attempts=1))
    async def queue_up() -> str:
        return await pass_through()

    async with app.run(store=database.url, supervisor_period="100ms"):
        occupying = await app.submit(occupy)
        await eventually(lambda: app.steps(occupying.id), lambda steps: steps and steps[0].state == "running")
        queued = await app.submit(queue_up)
        claimed = await eventually(lambda: app.task(queued.id), lambda task: task.complete_by)
        first = claimed.complete_by
        assert first is not None
        # It would have overrun by then, and gone to ``then``.
        await eventually(lambda: has_passed(first), bool)
        gate.set()

        assert await queued.result(timeout=10) == "served"
        assert (await app.task(queued.id)).failure_count == 0


async def has_passed(instant: datetime) -> bool:
    return datetime.now(UTC) > instant  # noqa: TID251  The app runs on the machine's own clock here.


async def test_then_wait_lets_an_overrun_task_rest_and_begin_again(database: Database):
    shop = Shop(complete_by="500ms", attempts=1, then="wait", wait="100ms")
    async with shop.app.run(database.url, **FAST):
        handle = await shop.app.submit(shop.order, id="t")
        await shop.at_work()
        task = await until(shop.app, "t", "waiting")
        assert task.error is not None
        assert task.error.type == "Overrun"
        shop.open.set()
        assert await handle.result(SOON) == "sent at attempt 2"


async def test_a_scheduler_whose_loop_hangs_past_a_steps_complete_by_loses_the_task_to_another(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    """CT-1: it cannot even notice; the other one's sweep counts the attempt as failed and takes the task."""
    monkeypatch.setattr(sweep, "EXPIRY_GRACE", timedelta(milliseconds=100))
    hanging, hung = threading.Event(), threading.Event()

    def shop(*, hang: bool) -> tuple[App, Any]:
        app = App("shop")
        agent = app.agent("shop", complete_by="300ms", retry=ONCE)

        @agent.step
        async def send() -> str:
            if hang:
                hanging.set()
                hung.wait(SOON)  # Not awaited: nothing else happens on this loop.
            return f"sent at attempt {current_step().attempt}"

        @app.workflow
        async def order() -> str:
            return await send()

        return app, order

    async def hang() -> None:
        app, order = shop(hang=True)
        async with app.run(database.url, **FAST):
            handle = await app.submit(order, id="t")
            assert await handle.result(SOON) == "sent at attempt 2"

    lost = counters[LEASE_LOST]
    stuck = asyncio.create_task(asyncio.to_thread(asyncio.run, hang()))
    assert await asyncio.to_thread(hanging.wait, SOON)
    await free_lead(database)
    app, _ = shop(hang=False)
    async with app.run(database.url, **FAST):
        assert await app.handle("t").result(SOON) == "sent at attempt 2"
        [step] = await app.steps("t")
    hung.set()
    await stuck

    assert (step.attempt, step.failure_count) == (2, 1)
    assert record(database)["failure_count"] == 0
    assert counters[LEASE_LOST] - lost == 1


async def test_a_step_that_waits_in_line_after_a_crash_is_not_taken_for_an_overdue_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    """DESIGN §4: a queued step has no complete-by, so waiting for a slot never burns an attempt."""
    monkeypatch.setattr(sweep, "EXPIRY_GRACE", timedelta(0))

    def shop(*, hang: bool) -> tuple[App, Any, asyncio.Event, asyncio.Event]:
        app = App("shop")
        agent = app.agent("shop", complete_by="1s", retry=ONCE, concurrency=1)
        began, go_on = asyncio.Event(), asyncio.Event()

        @agent.step
        async def send() -> str:
            began.set()
            if hang:
                await asyncio.Event().wait()
            return "sent"

        @agent.step(complete_by="10s")
        async def occupy() -> None:
            began.set()
            await go_on.wait()

        @app.workflow(recovery=Recovery(attempts=1))
        async def order() -> str:
            return await send()

        @app.workflow
        async def crowd() -> None:
            await occupy()

        return app, (order, crowd), began, go_on

    app, (order, _), began, _ = shop(hang=True)
    async with app.run(database.store_as(DyingStore), **FAST):
        await app.submit(order, id="t")
        await asyncio.wait_for(began.wait(), SOON)
        [interrupted] = await app.steps("t")
        assert interrupted.complete_by is not None
        overdue = interrupted.complete_by + timedelta(milliseconds=100)

    store = database.store_as(PatientStore)
    app, (_, crowd), began, go_on = shop(hang=False)
    async with app.run(store, **FAST):
        await app.submit(crowd)
        await asyncio.wait_for(began.wait(), SOON)
        store.may_bury = True
        [step] = await eventually(
            lambda: app.steps("t"), lambda steps: steps[0].state == "pending", what="queueing"
        )
        assert step.complete_by is None
        await eventually(
            lambda: _as_it_is(datetime.now(UTC)),  # noqa: TID251
            lambda now: now > overdue,
            what="the end of the interrupted attempt",
        )
        go_on.set()
        assert await app.handle("t").result(SOON) == "sent"
        [step] = await app.steps("t")

    assert step.failure_count == 0


# The disk is full


def limit(store: SqliteStore) -> Callable[..., None]:
    """Call it with no argument to fill the disk, with ``room=True`` to make room again."""

    def set_limit(*, room: bool = False) -> None:
        # Straight on the writing connection: while it is full, nothing gets through the front door.
        database = store._session.writer._connection
        [pages] = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {2**30 if room else pages}").fetchone()

    return set_limit


async def test_on_a_full_disk_submissions_fail_loudly_and_running_tasks_resume_when_there_is_room(
    sqlite_database: SqliteDatabase,
):
    """Nothing acknowledged is lost, nothing unacknowledged is half there."""
    app, store = App("shop"), SqliteStore(sqlite_database.url)
    full = limit(store)
    agent = app.agent("shop", retry=ONCE)
    began, go_on = asyncio.Event(), asyncio.Event()
    calls: list[int] = []

    @agent.step
    async def make() -> str:
        calls.append(current_step().attempt)
        began.set()
        await go_on.wait()
        return "x" * 100_000

    @app.workflow
    async def order(note: str) -> int:
        return len(await make())

    async with app.run(store, **FAST):
        handle = await app.submit(order, "small", id="t")
        await asyncio.wait_for(began.wait(), SOON)
        full()
        with pytest.raises(StoreFull, match="no room left"):
            await app.submit(order, "y" * 100_000, id="refused")

        go_on.set()
        with pytest.raises(TimeoutError):
            await handle.result(0.5)
        assert (await app.task("t")).state == "processing"

        full(room=True)
        assert await handle.result(SOON) == 100_000
        again = await app.submit(order, "y" * 100_000, id="refused")
        assert await again.result(SOON) == 100_000

    assert calls == [1, 1]
    assert record(sqlite_database)["failure_count"] == 0


# Entering and leaving


async def test_an_error_in_the_body_comes_out_as_it_is(database: Database):
    """Not in an ExceptionGroup: the roles beside it are nobody's business."""
    shop = Shop()
    error = KeyError("mine")
    with pytest.raises(KeyError) as raised:
        async with shop.app.run(database.url, **FAST):
            raise error

    assert raised.value is error


async def test_cancelling_the_body_leaves_nothing_running_and_releases_the_task(database: Database):
    shop = Shop()

    async def body() -> None:
        async with shop.app.run(database.url, **FAST):
            await shop.app.submit(shop.order, id="t")
            await asyncio.Event().wait()

    running = asyncio.create_task(body())
    await shop.at_work()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert leftovers() == (set(), set())
    assert record(database)["state"] == "pending"


async def test_after_the_context_nothing_runs_and_the_app_says_that_it_is_closed(database: Database):
    shop = Shop()
    shop.open.set()
    async with shop.app.run(database.url, **FAST):
        handle = await shop.app.submit(shop.order, id="t")
        await handle.result(SOON)

    assert leftovers() == (set(), set())
    with pytest.raises(Closed, match="not running"):
        await shop.app.submit(shop.order)


async def test_a_store_that_cannot_be_opened_is_an_error_at_the_door_and_leaves_nothing(database: Database):
    shop = Shop()
    with pytest.raises(StoreUnavailable):
        async with shop.app.run(database.nowhere(), **FAST):
            raise AssertionError("the body must not begin")

    assert leftovers() == (set(), set())
    with pytest.raises(Closed):
        await shop.app.submit(shop.order)


async def test_a_wrong_declaration_is_an_error_before_the_store_is_touched(database: Database):
    app = App("shop")
    agent = app.agent("shop")

    @agent.step
    async def pay(*everything: int) -> None: ...

    with pytest.raises(InvalidDefinition, match=r"\*everything"):
        async with app.run(database.url, **FAST):
            raise AssertionError("the body must not begin")

    assert database.is_untouched()
    assert leftovers() == (set(), set())


async def test_an_app_runs_again_after_a_start_that_failed(database: Database):
    shop = Shop()
    shop.open.set()
    with pytest.raises(StoreUnavailable):
        async with shop.app.run(database.nowhere(), **FAST):
            raise AssertionError("the body must not begin")
    async with shop.app.run(database.url, **FAST):
        handle = await shop.app.submit(shop.order)
        assert await handle.result(SOON) == "sent at attempt 1"


async def test_one_run_inside_another_leaves_the_outer_one_as_it_was(database: Database):
    outer, inner = Shop(), Shop()
    outer.open.set()
    inner.open.set()
    other = database.another()
    async with outer.app.run(database.url, **FAST):
        async with inner.app.run(database.url, **FAST), outer.app.run(other.url, **FAST):
            handle = await outer.app.submit(outer.order, id="elsewhere")
            assert await handle.result(SOON)
        handle = await outer.app.submit(outer.order, id="here")
        assert (await handle.result(SOON)).startswith("sent")
        with pytest.raises(Exception, match="no task 'elsewhere'"):
            await outer.app.task("elsewhere")


async def test_a_role_that_breaks_ends_the_app_with_its_error(database: Database):
    """Without its roles an application only seems to run."""

    class BrokenStore(AnyStore):
        async def claim(self, owner: Owner, runs: Any, *, limit: int, now: datetime) -> list[Claimed]:
            raise RuntimeError("a mistake in the engine")

    shop = Shop()
    with pytest.raises(Exception) as raised:
        async with shop.app.run(database.store_as(BrokenStore), **FAST):
            await asyncio.wait_for(asyncio.Event().wait(), SOON)

    assert "a mistake in the engine" in repr(raised.value)
    assert leftovers() == (set(), set())


# Underneath


async def _as_it_is(value: Any) -> Any:
    return value


def leftovers() -> tuple[set[str], set[str]]:
    """What still runs of ours: asyncio tasks, and threads (a reader's may need a moment to end)."""
    tasks = {task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("backstay")}
    return tasks, {thread.name for thread in threading.enumerate() if thread.name.startswith("backstay")}
