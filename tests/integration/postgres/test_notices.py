"""What one process writes, the others hear of at once; and when they cannot hear, they look."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import pytest

from backstay import App
from backstay.domain.states import TaskState
from backstay.observe import STORE_DEAF, counters
from backstay.scheduler import loop
from backstay.store.base import Changes
from backstay.store.postgres import PostgresStore, news
from backstay.testing import ManualClock
from backstay.testing.promises.holder import CANCEL, Holder, submitted
from tests.integration.postgres.schema import OpenStore, Schema
from tests.support.pgproxy import PgProxy
from tests.support.running import comes_true, eventually, running

#: Well below every period with which anybody looks although nobody called.
AT_ONCE_SECONDS = 0.4


def hello() -> App:
    app = App("hello")
    agent = app.agent("agent")

    @agent.step
    async def greet() -> str:
        return "hello"

    @app.workflow
    async def work() -> str:
        return await greet()

    return app


class Ears:
    """What a store told those who listen."""

    def __init__(self, store: PostgresStore) -> None:
        self.heard: list[Changes] = []
        store.listen(self.heard.append)

    async def hears(self, of: Callable[[Changes], object]) -> None:
        async def look() -> bool:
            return any(of(changes) for changes in self.heard)

        await eventually(look, bool, what="a notice")


async def listens(store: PostgresStore) -> None:
    """Come back once a store hears its own probes."""

    async def look() -> bool:
        return store._session._news._heard.is_set()

    await eventually(look, bool, what="a store that listens")


@pytest.fixture
async def pair(opened: OpenStore) -> tuple[PostgresStore, PostgresStore]:
    """Two stores that hear each other."""
    stores = await opened(), await opened()
    for store in stores:
        await listens(store)
    return stores


# They hear


async def test_a_submission_elsewhere_wakes_an_idle_scheduler_and_its_result_is_heard_there(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    # Nobody looks by himself while this test runs.
    monkeypatch.setattr(loop, "LOOK_EVERY", loop.LOOK_EVERY * 600)
    monkeypatch.setattr("backstay.outcomes.LOOK_EVERY_SECONDS", 600.0)
    app = hello()
    here, there = PostgresStore(postgres_url), PostgresStore(postgres_url)

    async with running(app, here, supervisor_period="1h", lease="3h"), app.client(there) as client:
        await asyncio.gather(listens(here), listens(there))
        took = []
        for number in range(10):
            began = time.monotonic()
            handle = await client.submit("work", id=f"t{number}")
            assert await handle.result(timeout=10) == "hello"
            took.append(time.monotonic() - began)

    print(f"submitted elsewhere, result heard there: {sorted(took)[5]:.3f} s, at most {max(took):.3f} s")
    assert sorted(took)[5] < AT_ONCE_SECONDS


async def test_what_happens_elsewhere_is_heard_once_and_said_precisely(
    pair: tuple[PostgresStore, PostgresStore], clock: ManualClock
):
    here, there = pair
    alice = await Holder.joined(there, clock, "alice")
    ears = Ears(here)

    task = await alice.hold("t")
    await there.signal("t", "go", b"1", dedup=None, now=clock.now())
    await alice.leave(task, TaskState.PROCESSED)

    await ears.hears(lambda changes: changes.ended)
    assert [changes.ended for changes in ears.heard if changes.ended] == [["t"]]
    assert [changes.touched for changes in ears.heard if changes.touched] == [[task.key]]
    assert not [changes for changes in ears.heard if changes.foreign or changes.settled]


async def test_a_notice_in_words_of_another_release_says_that_anything_may_have_changed(
    pair: tuple[PostgresStore, PostgresStore], schema: Schema, clock: ManualClock
):
    here, there = pair
    ears = Ears(here)

    await schema.execute("NOTIFY backstay_{schema}, 'all is different now'")

    await ears.hears(lambda changes: changes.foreign)
    await submitted(there, clock, "t")
    await ears.hears(lambda changes: changes.claimable)


async def test_what_was_done_here_is_not_heard_again_as_news(
    pair: tuple[PostgresStore, PostgresStore], clock: ManualClock
):
    here, there = pair
    ears, others = Ears(here), Ears(there)

    await submitted(here, clock, "t")
    await here.amend("t", CANCEL, now=clock.now())
    await others.hears(lambda changes: changes.ended)
    # Notices come in order: what follows this one would have come before it.
    await submitted(there, clock, "last")
    await ears.hears(lambda changes: changes.claimable and not changes.settled)

    assert [[task.id for task in changes.settled] for changes in ears.heard if changes.settled] == [["t"]]
    assert not [changes for changes in ears.heard if changes.ended]


async def test_hundreds_of_tasks_with_long_ids_fit_into_the_notices_of_one_commit(
    pair: tuple[PostgresStore, PostgresStore], clock: ManualClock
):
    here, there = pair
    ids = sorted(f"{number:03}-{'x' * 196}" for number in range(400))
    alice = await Holder.joined(there, clock, "alice")
    await submitted(there, clock, *ids)
    claimed = await alice.claim()
    ears = Ears(here)

    await asyncio.gather(*(alice.leave(one.task, TaskState.PROCESSED) for one in claimed))

    async def heard() -> list[str]:
        return sorted(one for changes in ears.heard for one in changes.ended)

    assert await eventually(heard, lambda seen: len(seen) == len(ids), what="all of them") == ids


async def test_a_listener_whose_connection_was_ended_listens_again_and_looks_at_what_it_missed(
    opened: OpenStore, schema: Schema, clock: ManualClock
):
    here, there = await opened(), await opened()
    await listens(here)
    ears = Ears(here)
    before = counters[STORE_DEAF]

    # While somebody is not there to hear it, something happens.
    await schema.end_connections()
    await submitted(there, clock, "missed")
    await ears.hears(lambda changes: changes.foreign)
    await listens(here)
    ears.heard.clear()
    await submitted(there, clock, "heard")

    await ears.hears(lambda changes: changes.claimable)
    print(f"{counters[STORE_DEAF] - before} warnings")


# They cannot hear


async def test_where_notices_are_swallowed_a_warning_says_so_once_and_work_goes_on(
    postgres_url: str,
    proxy: PgProxy,
    proxy_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr(news, "PROBE_WAIT_SECONDS", 0.2)
    proxy.swallow_notifications = True
    caplog.set_level(logging.WARNING, "backstay")
    app = hello()

    async with running(app, PostgresStore(proxy_url)), app.client(postgres_url) as client:
        took = []
        for number in range(5):
            began = time.monotonic()
            handle = await client.submit("work", id=f"t{number}")
            assert await handle.result(timeout=10) == "hello"
            took.append(time.monotonic() - began)
        # The work may be done before it is clear that the store hears nothing.
        await comes_true(lambda: any(STORE_DEAF in record.message for record in caplog.records))

    print(f"by looking: {[f'{seconds:.2f}' for seconds in took]} s")
    assert max(took) < 3
    [warning] = [record for record in caplog.records if STORE_DEAF in record.message]
    assert warning.levelno == logging.WARNING
    assert "notices do not arrive" in warning.message


async def test_a_store_that_hears_again_stops_looking_and_would_warn_again(
    opened: OpenStore, proxy: PgProxy, proxy_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(news, "PROBE_WAIT_SECONDS", 0.1)
    monkeypatch.setattr(news, "PROBE_EVERY_SECONDS", 0.1)
    monkeypatch.setattr(news, "POLL_SECONDS", 0.02)
    before = counters[STORE_DEAF]

    async def warnings() -> int:
        return counters[STORE_DEAF] - before

    proxy.swallow_notifications = True
    store = await opened(proxy_url)
    await eventually(warnings, lambda number: number == 1, what="a warning")
    proxy.swallow_notifications = False
    await listens(store)
    proxy.swallow_notifications = True

    await eventually(warnings, lambda number: number == 2, what="another warning")
