"""Pause, resume and force a breaker: what operators hold back stays back, and goes on when they let it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from backstay import App, Breaker, Recovery, Retry
from backstay.client import Client, Handle
from backstay.definitions.registry import Registry
from backstay.errors import InvalidInput, StoreUnavailable, UnknownAgent, UnknownWorkflow
from backstay.runtime import connected
from backstay.settings import Settings
from backstay.store.base import Settle, Store, Transition
from backstay.store.records import AuditFilter
from backstay.views import AgentInstance
from tests.support.databases import AnyStore, Database
from tests.support.running import eventually, running, until

ONCE = Retry(attempts=1)


class Shop:
    """An order of two steps at two services."""

    def __init__(self, **bank: Any) -> None:
        self.app = App("shop")
        self.charged = 0
        self.broken = False
        self.gate = asyncio.Event()
        self.gate.set()
        bank_agent = self.app.agent("bank", retry=ONCE, **bank)
        post_agent = self.app.agent("post", retry=ONCE)

        @post_agent.step
        async def pack(order: str) -> None:
            await self.gate.wait()

        @bank_agent.step
        async def charge(order: str) -> int:
            if self.broken:
                raise RuntimeError("the bank is down")
            self.charged += 1
            return self.charged

        @self.app.workflow(recovery=Recovery(attempts=100))
        async def buy(order: str) -> int:
            await pack(order)
            return await charge(order)


@pytest.fixture
def store(database: Database) -> Store:
    return database.store()


async def agent(client: Client, name: str = "bank") -> list[AgentInstance]:
    """How the agent stands in the processes that have told of it."""
    return [each for one in await client.agents() if one.name == name for each in one.instances]


async def held_back(client: Client) -> None:
    """Come back once every process has heard that the bank is not to be called."""
    await eventually(
        lambda: agent(client),
        lambda seen: seen and all(each.open_until is not None for each in seen),
        what="a process that obeys",
    )


class TestAWorkflow:
    async def test_none_of_its_tasks_is_claimed_before_it_is_resumed(self, store: Store):
        shop = Shop()
        async with running(shop.app, store) as client:
            await client.pause_workflow("buy", reason="stocktaking")
            handle = await client.submit("buy", "order-1", id="order-1")
            with pytest.raises(TimeoutError):
                await handle.result(timeout=0.3)

            why = await client.why("order-1")
            assert "workflow 'buy' is paused by" in why.reason
            assert "stocktaking" in why.reason
            assert why.command == "backstay workflows resume buy"

            await client.resume_workflow("buy")
            assert await handle.result(timeout=5) == 1

    async def test_a_task_that_is_being_run_is_finished(self, store: Store):
        shop = Shop()
        shop.gate.clear()
        async with running(shop.app, store) as client:
            handle = await client.submit("buy", "order-1")
            await until(client, handle.id, "processing")

            await client.pause_workflow("buy")
            shop.gate.set()

            assert await handle.result(timeout=5) == 1

    async def test_a_name_that_nobody_knows_is_refused_and_recorded_nowhere(self, store: Store):
        async with running(Shop().app, store) as client:
            with pytest.raises(UnknownWorkflow, match=r"there is no workflow 'bye'.*known: buy"):
                await client.pause_workflow("bye")

            assert (await client.audit(AuditFilter())).items == []


class TestAnAgent:
    async def test_its_steps_wait_outside_memory_and_go_on_at_once_when_it_is_resumed(self, store: Store):
        shop = Shop()
        async with running(shop.app, store, heartbeat="50ms") as client:
            await client.pause_agent("bank", reason="the contract ran out")
            await held_back(client)
            handle = await client.submit("buy", "order-1")
            parked = await until(client, handle.id, "waiting")
            assert parked.locked_by is None

            why = await client.why(handle.id)
            assert "step charge:1 waits because agent 'bank' is paused by" in why.reason
            assert why.command == "backstay agents resume bank"

            await client.resume_agent("bank")
            assert await handle.result(timeout=5) == 1

    async def test_a_step_in_line_for_a_slot_is_parked_as_well(self, store: Store):
        shop = Shop()
        shop.gate.clear()
        async with running(shop.app, store, heartbeat="50ms") as client:
            handle = await client.submit("buy", "order-1")
            await until(client, handle.id, "processing")

            await client.pause_agent("bank")
            await held_back(client)
            shop.gate.set()
            await until(client, handle.id, "waiting")

            assert shop.charged == 0

    async def test_other_agents_work_on(self, store: Store):
        shop = Shop()

        @shop.app.workflow
        async def other() -> str:
            return "done"

        async with running(shop.app, store) as client:
            await client.pause_agent("bank")
            handle = await client.submit("other")

            assert await handle.result(timeout=5) == "done"

    async def test_an_unknown_one_is_refused(self, store: Store):
        async with running(Shop().app, store) as client:
            with pytest.raises(UnknownAgent, match="there is no agent 'blank'"):
                await client.pause_agent("blank")

    async def test_what_another_process_decides_is_obeyed_soon_and_nobody_is_left_behind(
        self, database: Database
    ):
        """The heartbeat lies far away: it is not what brings the word."""
        shop = Shop()
        async with (
            running(shop.app, database.store(), lease="1h", heartbeat="20m") as client,
            connected(Registry(), Settings(), store=database.store()) as elsewhere,
        ):
            await until(client, (await client.submit("buy", "order-1")).id, "processed")
            for _ in range(5):
                await elsewhere.pause_agent("bank")
                handle = await self.first_that_waits(client)

                await elsewhere.resume_agent("bank")

                await handle.result(timeout=5)

    async def test_who_parks_while_the_word_comes_that_it_may_go_on_is_not_left_behind(
        self, database: Database
    ):
        """The agent is open again in its process before it is written that a task left while it was not."""

        class Slow(AnyStore):
            """Writes that a task parked only once it may."""

            def __init__(self, url: str) -> None:
                super().__init__(url)
                self.held: list[tuple[Transition, Settle]] = []

            def apply(self, transition: Transition, settle: Settle) -> None:
                if transition.task is not None and transition.task.parked:
                    self.held.append((transition, settle))
                else:
                    super().apply(transition, settle)

            def write(self) -> None:
                for transition, settle in self.held:
                    super().apply(transition, settle)

        shop, store = Shop(), database.store_as(Slow)
        async with (
            running(shop.app, store, lease="1h", heartbeat="20m") as client,
            connected(Registry(), Settings(), store=database.store()) as elsewhere,
        ):
            await until(client, (await client.submit("buy", "order-1")).id, "processed")
            await elsewhere.pause_agent("bank")
            await eventually(lambda: client.submit("buy", "order"), lambda _: store.held)
            charged = shop.charged
            await elsewhere.resume_agent("bank")
            await eventually(lambda: client.submit("buy", "order"), lambda _: shop.charged > charged)

            store.write()

            for transition, _ in store.held:
                assert transition.task is not None
                await until(client, transition.task.id, "processed")

    async def first_that_waits(self, client: Client) -> Handle:
        """Buy until a purchase has to wait: somebody has heard of the pause then."""
        while True:
            handle = await client.submit("buy", "order")
            if (await until(client, handle.id, "processed", "waiting")).state == "waiting":
                return handle

    async def test_a_process_that_cannot_read_what_is_held_back_begins_nothing(self, database: Database):
        class Forgetful(AnyStore):
            """Its records are away at first."""

            away = 2

            @property
            def records(self) -> Any:
                if self.away:
                    self.away -= 1
                    raise StoreUnavailable("gone for a moment")
                return super().records

        shop = Shop()
        async with running(shop.app, database.store(), heartbeat="50ms") as client:
            await client.pause_agent("bank")
        async with running(shop.app, database.store_as(Forgetful), heartbeat="50ms") as client:
            handle = await client.submit("buy", "order-1")
            await until(client, handle.id, "waiting")

        assert shop.charged == 0


class TestABreaker:
    async def test_held_open_it_lets_nobody_in(self, store: Store):
        shop = Shop()
        async with running(shop.app, store, heartbeat="50ms") as client:
            await client.force_breaker("bank", "open", reason="they asked us to")
            await held_back(client)
            handle = await client.submit("buy", "order-1")
            await until(client, handle.id, "waiting")
            assert "holds the breaker of agent 'bank' open" in (await client.why(handle.id)).reason

            await client.force_breaker("bank", "auto")
            assert await handle.result(timeout=5) == 1

    async def test_held_closed_it_lets_everybody_in_whatever_it_has_seen(self, store: Store):
        shop = Shop(breaker=Breaker(failures=1, within="1m", open_for="1h"))
        shop.broken = True
        async with running(shop.app, store, heartbeat="100ms") as client:
            handle = await client.submit("buy", "order-1")
            await until(client, handle.id, "waiting")
            await eventually(
                lambda: agent(client),
                lambda seen: [each.breaker for each in seen] == ["open"],
                what="the report of an open breaker",
            )
            assert "whose breaker is open until" in (await client.why(handle.id)).reason

            shop.broken = False
            await client.force_breaker("bank", "closed")

            assert await handle.result(timeout=5) == 1

    async def test_another_position_is_refused(self, store: Store):
        async with running(Shop().app, store) as client:
            with pytest.raises(InvalidInput, match='it must be "open", "closed" or "auto"'):
                await client.force_breaker("bank", "ajar")  # type: ignore[arg-type]


class TestTheTrail:
    async def test_each_action_is_there_with_who_when_why_before_and_after(self, store: Store):
        async with running(Shop().app, store) as client:
            ada = client.acting_as("ada")
            await ada.pause_agent("bank", reason="audit")
            await ada.force_breaker("bank", "open")
            await ada.resume_agent("bank")

            entries = (await client.audit(AuditFilter())).items

        assert [(one.who, one.action, one.target, one.reason) for one in reversed(entries)] == [
            ("ada", "pause", "agent:bank", "audit"),
            ("ada", "breaker open", "agent:bank", None),
            ("ada", "resume", "agent:bank", None),
        ]
        assert entries[-1].before is None
        assert entries[-1].after is not None
        assert entries[-1].after["paused"] is True

    async def test_in_flight_and_breaker_of_every_process_are_published(self, store: Store):
        shop = Shop(breaker=Breaker())
        shop.gate.clear()
        async with running(shop.app, store, heartbeat="50ms") as client:
            await client.submit("buy", "order-1")

            seen = await eventually(
                lambda: agent(client, "post"), lambda seen: [each.in_flight for each in seen] == [1]
            )

            assert [each.breaker for each in seen] == ["closed"]
            shop.gate.set()
