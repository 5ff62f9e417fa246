"""What an agent host takes up, begins, gives back and says; stepped by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import pytest

from backstay import App, Breaker, Retry
from backstay.agents.host import AgentHost
from backstay.agents.inbox import Inbox
from backstay.clock import Alarms, SystemClock
from backstay.domain.lease import Owner
from backstay.domain.request import Completed, Failed, Reference
from backstay.domain.states import StepState
from backstay.domain.task import TaskRecord
from backstay.observe import LATE_REPLY, counters
from backstay.settings import Settings
from backstay.store.base import NewInstance, Store
from backstay.store.requests import Mail
from backstay.testing import ManualClock
from backstay.testing.promises.holder import Holder
from backstay.testing.promises.requests import RUNNING, ask, reference, sent
from backstay.testing.records import a_step, replace
from tests.support.databases import Database
from tests.support.gate import Gate
from tests.support.running import comes_true, eventually

INPUT = b"7"


class Desk:
    """An agent host, and a scheduler that asks it."""

    def __init__(self, store: Store, alice: Holder, owner: Owner) -> None:
        self.store = store
        self.alice = alice
        self.gate = Gate(closed=True)
        app = App("desk")
        bank = app.agent(
            "bank",
            concurrency=2,
            retry=Retry(attempts=1),
            breaker=Breaker(failures=1, within="10s", open_for="1h"),
        )
        self.fails = False

        @bank.step
        async def charge(number: int) -> str:
            await self.gate.enter()
            if self.fails:
                raise ConnectionError("no line")
            return "receipt"

        settings, clock = Settings(), SystemClock()
        self.host = AgentHost(
            app.registry, settings=settings, clock=clock, alarms=Alarms(clock), random=Random(1)
        )
        self.inbox = Inbox(store, owner, self.host, settings=settings, clock=clock)

    async def answer_to(self, one: Reference) -> object:
        await comes_true(lambda: self.host.in_flight == 0)
        await self.inbox.say_once()
        [found] = await self.store.requests.standing([one.task_key])
        return found.answer()


@pytest.fixture
async def desk(database: Database) -> AsyncIterator[Desk]:
    store, clock = database.store(), ManualClock()
    await store.open()
    alice = await Holder.joined(store, clock, "alice")
    owner = await store.register(
        NewInstance(id="host", host="here", pid=1, roles=("agents",)), now=clock.now()
    )
    yield Desk(store, alice, owner)
    await store.close()


async def held(desk: Desk, *steps: str) -> TaskRecord:
    """A task with these steps under way, whose requests lie in the store."""
    task = await desk.alice.hold()
    await ask_for(desk, task, *steps)
    return task


async def ask_for(desk: Desk, task: TaskRecord, *steps: str) -> None:
    await ask(desk.alice, task, *(a_step(StepState.RUNNING, key=key) for key in steps), input=INPUT)


async def test_a_host_takes_up_no_more_than_it_has_free_slots(desk: Desk):
    await held(desk, "charge:1", "charge:2", "charge:3")

    assert await desk.inbox.run_once() == 2
    assert await desk.inbox.run_once() == 0
    await desk.gate.came("charge:1", "charge:2")
    desk.gate.let("charge:1")
    await comes_true(lambda: desk.host.in_flight == 1)

    assert await desk.inbox.run_once() == 1
    await desk.gate.came("charge:3")


async def test_a_late_reply_is_refused_and_counted(desk: Desk):
    task = await held(desk, "charge:1")
    await desk.inbox.run_once()
    await desk.gate.came("charge:1")
    pending = replace(RUNNING, state=StepState.PENDING, complete_by=None, unsure=True)
    assert await desk.alice.write(task, steps=[pending]) is None
    second = replace(RUNNING, attempt=2)
    assert await desk.alice.write(task, steps=[second], mail=Mail(sent=[sent(task, second)])) is None
    late = counters[LATE_REPLY]

    desk.gate.let("charge:1")
    await comes_true(lambda: desk.host.in_flight == 0)
    await desk.inbox.say_once()

    assert counters[LATE_REPLY] == late + 1
    [current] = await desk.store.requests.standing([task.key])
    assert (current.reference.attempt, current.reply) == (2, None)


async def test_with_its_breaker_open_a_host_takes_up_nothing(desk: Desk):
    desk.fails, desk.gate.closed = True, False
    task = await held(desk, "charge:1")
    await desk.inbox.run_once()
    failed = await desk.answer_to(reference(task))
    assert isinstance(failed, Failed)
    assert desk.host.report()["bank"].breaker == "open"

    await ask_for(desk, task, "charge:2")

    assert await desk.inbox.run_once() == 0
    assert [one.reference.step for one in await desk.store.requests.held(Owner("host", 1))] == []


async def test_what_was_withdrawn_is_stopped_at_the_next_look_and_said_to_have_stopped(desk: Desk):
    task = await held(desk, "charge:1")
    await desk.inbox.run_once()
    await desk.gate.came("charge:1")
    await desk.store.requests.withdraw(desk.alice.owner, [reference(task)], now=ManualClock().now())

    desk.inbox.look_soon()
    await desk.inbox.run_once()
    await comes_true(lambda: desk.host.in_flight == 0)
    await desk.inbox.say_once()

    assert await desk.store.requests.standing([task.key]) == []
    assert desk.inbox.in_hand == 0


async def test_what_is_ours_by_the_store_and_was_never_begun_goes_back_into_the_line(desk: Desk):
    """The answer to a claim was lost with the connection."""
    task = await held(desk, "charge:1")
    desk.gate.closed = False
    await desk.store.requests.claim(Owner("host", 1), {"bank": 1}, now=ManualClock().now())

    desk.inbox.look_soon()
    assert await desk.inbox.run_once() == 1

    assert await desk.answer_to(reference(task)) == Completed(b'"receipt"')


async def test_a_step_that_this_process_does_not_have_is_a_failure_that_may_pass(desk: Desk):
    task = await desk.alice.hold()
    await ask(desk.alice, task, a_step(StepState.RUNNING, operation="charge_twice"))

    await desk.inbox.run_once()

    failed = await desk.answer_to(reference(task))
    assert isinstance(failed, Failed)
    assert (failed.error.type, failed.error.permanent, failed.unsure) == ("Unregistered", False, False)


async def test_a_host_that_stops_takes_up_nothing_and_lets_what_is_at_work_end(desk: Desk):
    task = await held(desk, "charge:1")
    await desk.inbox.run_once()
    await desk.gate.came("charge:1")
    desk.host.close()
    desk.inbox.close()
    await ask_for(desk, task, "charge:2")

    assert await desk.inbox.run_once() == 0
    desk.gate.let("charge:1")
    await comes_true(lambda: desk.host.in_flight == 0)
    await desk.inbox.say_once()

    async def look() -> list[str]:
        return [one.reference.step for one in await desk.store.requests.standing([task.key]) if one.reply]

    assert await eventually(look, bool) == ["charge:1"]
