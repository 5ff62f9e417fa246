"""What a scheduler makes of hosts that die, that stop, or that never take up what they were asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from backstay import App, Recovery, Retry
from backstay.clock import SystemClock
from backstay.domain.breaker import BreakerState
from backstay.domain.lease import Owner
from backstay.domain.request import Failed, Request, reply_document, request_of
from backstay.domain.step import Failure
from backstay.store.base import AgentReport, NewInstance, Report, Store
from backstay.store.requests import Answered
from tests.support.databases import Database
from tests.support.leading import seize_lead
from tests.support.running import SOON, ends, eventually, until
from tests.support.split import hosting, scheduling

CLOCK = SystemClock()
FREE = AgentReport(in_flight=0, waiting=0, concurrency=5, breaker=BreakerState.CLOSED, open_until=None)


class Hosts:
    """Processes of agents as far as a store can see them: they take up what they are asked, and die."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._number = 0

    async def start(self) -> Owner:
        self._number += 1
        instance = NewInstance(id=f"host-{self._number}", host="here", pid=1, roles=("agents",))
        owner = await self._store.register(instance, now=CLOCK.now())
        await self._store.beat(owner, now=CLOCK.now(), report=Report(agents={"bank": FREE}))
        return owner

    async def takes_up(self, owner: Owner) -> Request:
        """The next request, once there is one."""
        [taken] = await eventually(
            lambda: self._store.requests.claim(owner, {"bank": 1}, now=CLOCK.now()), bool, what="a request"
        )
        return request_of(taken.body, task_key=taken.reference.task_key, remaining_seconds=1.0)

    async def says_that_it_failed(self, request: Request) -> None:
        reply = reply_document(Failed(Failure("Busy", "come again"), unsure=True))
        assert await self._store.requests.answer([Answered(request.reference, reply)], now=CLOCK.now()) == [
            True
        ]

    async def is_given_up(self) -> None:
        """The supervisor ends every attempt that is under way, as if its complete-by had passed long ago."""
        leader = await seize_lead(self._store, now=CLOCK.now())
        late = CLOCK.now() + timedelta(hours=1)
        assert await self._store.supervision.expire_steps(leader, grace=timedelta(0), now=late, limit=9) == 1

    async def dies(self, owner: Owner) -> None:
        """It is declared dead, and nobody else."""
        leader = await seize_lead(self._store, now=CLOCK.now())
        await self._store.beat(owner, now=CLOCK.now() - timedelta(days=1))
        await self._store.supervision.bury(leader, lease=timedelta(hours=1), now=CLOCK.now())


@pytest.fixture
async def hosts(database: Database) -> AsyncIterator[Hosts]:
    options: dict[str, Any] = {} if "sqlite" in database.url else {"server_clock": False}
    store = database.store(**options)
    await store.open()
    yield Hosts(store)
    await store.close()


def shop(*, idempotent: bool = True, complete_by: str = "30s", **recovery: Any) -> App:
    app = App("shop")
    bank = app.agent("bank", complete_by=complete_by, retry=Retry(attempts=1))

    @bank.step(idempotent=idempotent)
    async def charge() -> str:
        return "receipt"

    @app.workflow(recovery=Recovery(**recovery))
    async def order() -> str:
        return await charge()

    return app


async def test_what_a_dead_host_worked_on_is_repeated_without_counting_a_failure(
    database: Database, hosts: Hosts
):
    app = shop(crashes=3)
    async with scheduling(app, database) as client:
        first = await hosts.start()
        handle = await client.submit("order", id="t")
        await hosts.takes_up(first)
        await hosts.dies(first)

        async with hosting(app, database):
            assert await handle.result(SOON) == "receipt"
        [step] = await client.steps("t")

    assert (step.attempt, step.failure_count) == (2, 0)


async def test_a_step_that_kills_its_hosts_is_not_given_to_another_for_ever(database: Database, hosts: Hosts):
    async with scheduling(shop(crashes=2, then="wait"), database) as client:
        await client.submit("order", id="t")
        for _ in range(2):
            owner = await hosts.start()
            await hosts.takes_up(owner)
            await hosts.dies(owner)
        stopped = await until(client, "t", "error")
        [step] = await client.steps("t")

    assert stopped.error is not None
    assert stopped.error.type == "Crashes"
    assert (step.state, step.attempt) == ("failed", 2)


async def test_a_step_that_must_not_run_twice_is_not_repeated_when_its_host_dies(
    database: Database, hosts: Hosts
):
    async with scheduling(shop(idempotent=False, then="error"), database) as client:
        owner = await hosts.start()
        await client.submit("order", id="t")
        await hosts.takes_up(owner)
        await hosts.dies(owner)
        failed = await ends(client, "t")
        [step] = await client.steps("t")

    assert (failed.state, failed.step) == ("error", "charge:1")
    assert (step.state, step.attempt) == ("failed", 1)


async def test_a_request_that_nobody_took_up_in_time_was_not_begun_so_even_a_step_for_once_is_sent_again(
    database: Database, hosts: Hosts
):
    app = shop(idempotent=False, complete_by="1s", attempts=1, then="error")
    async with scheduling(app, database) as client:
        await hosts.start()  # It offers, and never takes up anything.
        handle = await client.submit("order", id="t")

        async def attempt() -> int:
            return next((step.attempt for step in await client.steps("t")), 0)

        await eventually(attempt, lambda seen: seen >= 2, what="a second attempt")
        async with hosting(app, database):
            assert await handle.result(SOON) == "receipt"
        [step] = await client.steps("t")

    assert (step.state, step.failure_count) == ("completed", 0)


async def test_a_host_that_hangs_past_the_complete_by_costs_an_attempt(database: Database, hosts: Hosts):
    app = shop(complete_by="1s", attempts=2)
    async with scheduling(app, database) as client:
        owner = await hosts.start()
        handle = await client.submit("order", id="t")
        await hosts.takes_up(owner)

        async with hosting(app, database):
            assert await handle.result(SOON) == "receipt"
        [step] = await client.steps("t")

    assert step.failure_count == 1


async def test_an_attempt_that_the_supervisor_ended_and_whose_failure_is_told_after_that_counts_once(
    database: Database, hosts: Hosts
):
    app = shop(attempts=2)
    async with scheduling(app, database) as client:
        owner = await hosts.start()
        handle = await client.submit("order", id="t")
        request = await hosts.takes_up(owner)

        await hosts.is_given_up()
        await hosts.says_that_it_failed(request)

        async with hosting(app, database):
            assert await handle.result(SOON) == "receipt"
        [step] = await client.steps("t")

    assert (step.attempt, step.failure_count) == (2, 1)
