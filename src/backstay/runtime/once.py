"""One round of the supervisor, for cron or a job."""

from __future__ import annotations

import contextlib
from typing import Final

from backstay.clock import Clock, SystemClock
from backstay.definitions.registry import Registry
from backstay.domain.alert import Alert, AlertKind
from backstay.errors import LeaseLost
from backstay.looking import Onlooker
from backstay.runtime.running import new_instance_id
from backstay.runtime.stores import StoreClock, open_store
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.supervisor.loop import Supervisor
from backstay.supervisor.telling import Telling, Told, sinks_of, tell_all
from backstay.views import SupervisorRun, supervisor_run

TEST: Final = "this is a test: nothing is wrong, and nobody has to do anything"


async def supervise_once(settings: Settings) -> SupervisorRun:
    """Make one round under the lease that all supervisors share, on a store that exists.

    When another supervisor leads, it makes the rounds, and nothing is done here.
    """
    store = open_store(settings)
    await store.open(must_exist=True)
    try:
        clock = StoreClock(store)
        passing = Supervisor(store.supervision, new_instance_id(), settings=settings, clock=clock)
        try:
            done = await passing.run_once(recorded=True)
            await _tell(store, passing, settings=settings, clock=clock)
            looker = Onlooker(store, Registry(), settings=settings, clock=clock)
            return supervisor_run(await looker.supervisor(), ran=done is not None)
        finally:
            await passing.step_down()
    finally:
        await store.close()


async def _tell(store: Store, supervisor: Supervisor, *, settings: Settings, clock: Clock) -> None:
    """Tell sinks once of the alerts that are due, if the round was ours to make."""
    telling = Telling(
        store.alerting, sinks_of(settings, clock), lambda: supervisor.leader, settings=settings, clock=clock
    )
    try:
        with contextlib.suppress(LeaseLost):
            await telling.run_once()
    finally:
        await telling.close()


async def tell_test_alert(settings: Settings) -> list[Told]:
    """Tell every sink of an alert that is none; what became of it. Nothing is kept."""
    clock = SystemClock()
    now = clock.now()
    test = Alert(
        id=0, kind=AlertKind.TEST, target="test", task_id=None, step=None, message=TEST, at=now, last_at=now
    )
    sinks = sinks_of(settings, clock)
    try:
        return await tell_all(sinks, test)
    finally:
        for sink in sinks:
            await sink.close()
