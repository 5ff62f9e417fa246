"""One round of the supervisor, for cron or a job."""

from __future__ import annotations

from backstay.definitions.registry import Registry
from backstay.looking import Onlooker
from backstay.runtime.running import new_instance_id
from backstay.runtime.stores import StoreClock, open_store
from backstay.settings import Settings
from backstay.supervisor.loop import Supervisor
from backstay.views import SupervisorRun, supervisor_run


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
            looker = Onlooker(store, Registry(), settings=settings, clock=clock)
            return supervisor_run(await looker.supervisor(), ran=done is not None)
        finally:
            await passing.step_down()
    finally:
        await store.close()
