"""How many calls an agent makes at once follows what its service can do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from backstay import App, Breaker, Pace, Recovery, Retry
from backstay.client import Client
from backstay.observe import AGENT_SLOWED, counters
from backstay.views import AgentInstance
from tests.support.capacity import CROWD, Service, World
from tests.support.running import FAST, SOON, Down, eventually

MOST = 200
WARM_UP_SECONDS = 20
SECONDS = 40


def world(app: App, service: Service, **agent: Any) -> World:
    return World(app.agent("drone", **{"concurrency": MOST, "pace": True, **agent}), service)


def fixed(concurrency: int, capacity: int, *, spread: float) -> float:
    """What comes of a concurrency that stays as it is."""
    one = world(App("fixed"), Service(capacity, spread=spread), concurrency=concurrency, pace=None)
    one.run(WARM_UP_SECONDS)
    return one.run(SECONDS)


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("capacity", [1, 4, 20, 60])
async def test_a_service_does_nearly_what_it_could_at_the_best_concurrency_and_is_not_crowded(
    app: App, capacity: int, spread: float
):
    paced = world(app, Service(capacity, spread=spread))

    paced.run(WARM_UP_SECONDS)
    rate = paced.run(SECONDS)

    best = max(fixed(number, capacity, spread=spread) for number in (capacity, CROWD * capacity))
    assert rate >= 0.8 * best
    # Twice its best latency is reached at twice its capacity; where chance hides it, somewhat later.
    assert paced.most <= max(8, 4 * capacity)


async def test_the_same_calls_all_at_once_would_drown_it(app: App):
    assert fixed(MOST, 20, spread=0.5) < 0.25 * fixed(20, 20, spread=0.5)


async def test_a_service_that_can_take_everything_gets_everything(app: App):
    paced = world(app, Service(MOST))

    paced.run(WARM_UP_SECONDS)

    assert paced.limit == MOST


async def test_a_service_that_loses_capacity_is_given_less_and_all_of_it_when_it_is_back(app: App):
    paced = world(app, Service(60))
    paced.run(WARM_UP_SECONDS)

    paced.service.capacity = 6
    paced.run(WARM_UP_SECONDS)
    rate = paced.run(SECONDS)
    assert rate >= 0.8 * 6 / paced.service.seconds
    assert paced.most <= 4 * 6

    paced.service.capacity = 60
    paced.run(WARM_UP_SECONDS)
    assert paced.run(SECONDS) >= 0.85 * 60 / paced.service.seconds


async def test_a_service_that_is_slower_for_good_is_used_fully_again(app: App):
    """What it did at its best before is not held against it for ever."""
    paced = world(app, Service(20))
    paced.run(WARM_UP_SECONDS)

    paced.service.seconds *= 3
    paced.run(3 * WARM_UP_SECONDS)

    assert paced.run(SECONDS) >= 0.85 * 20 / paced.service.seconds


async def test_an_outage_is_met_with_the_least_and_followed_by_all_there_is(app: App):
    paced = world(app, Service(60), pace=Pace(least=2))
    paced.run(WARM_UP_SECONDS)
    before, slowed = paced.limit, counters[AGENT_SLOWED]

    paced.service.up = False
    paced.run(5)
    assert (before > 20, paced.limit) == (True, 2)
    assert counters[AGENT_SLOWED] > slowed

    paced.service.up = True
    paced.run(WARM_UP_SECONDS)
    assert paced.run(SECONDS) >= 0.85 * 60 / paced.service.seconds


async def test_after_an_open_breaker_it_begins_with_the_least(app: App):
    breaker = Breaker(failures=5, within="10s", open_for="30s")
    paced = world(app, Service(60), breaker=breaker)
    paced.run(WARM_UP_SECONDS)
    at_once = paced.limit

    paced.service.up = False
    paced.run(10)
    # Those that were under way may fail; from then on nobody is let in.
    assert paced.refused <= at_once
    paced.service.up = True
    paced.run(25)
    assert (paced.most, paced.limit) == (1, 1)
    paced.run(WARM_UP_SECONDS)

    assert paced.run(SECONDS) >= 0.85 * 60 / paced.service.seconds


async def test_the_limit_of_now_is_published_as_it_grows_and_falls(app: App, url: str):
    agent = app.agent("drone", concurrency=50, pace=Pace(least=3), retry=Retry(attempts=5, first="1ms"))
    service_is_up = True

    @agent.step
    async def schedule(delivery: int) -> int:
        await asyncio.sleep(0.001)
        if not service_is_up:
            raise Down
        return delivery

    @app.workflow(recovery=Recovery(attempts=1, then="error"))
    async def deliver(delivery: int) -> int:
        return await schedule(delivery)

    async def deliver_all(number: int) -> None:
        handles = [await app.submit(deliver, delivery) for delivery in range(number)]
        await asyncio.gather(*(handle.result(SOON) for handle in handles), return_exceptions=True)

    async with app.run(url, **FAST), app.client(url) as client:
        assert [(one.concurrency, one.concurrency_max) for one in await reported(client)] == [(3, 50)]

        await deliver_all(400)
        await eventually(lambda: reported(client), lambda seen: (seen[0].concurrency or 0) > 3)

        service_is_up = False
        await deliver_all(60)
        await eventually(lambda: reported(client), lambda seen: seen[0].concurrency == 3)


async def reported(client: Client) -> list[AgentInstance]:
    async def look() -> list[AgentInstance]:
        return [one for agent in await client.agents() for one in agent.instances]

    return await eventually(look, bool)
