"""Who may sweep, in a test."""

from __future__ import annotations

from datetime import datetime

from backstay.clock import SystemClock
from backstay.domain.lease import Leader
from backstay.store.base import Store
from backstay.testing.promises.holder import FOR_LONG
from tests.support.databases import Database


async def seize_lead(store: Store, *, now: datetime) -> Leader:
    """The lead, until the end of the test, whoever has it now."""
    supervision = store.supervision
    while (leader := await supervision.lead("test", lease=FOR_LONG, now=now)).holder != "test":
        await supervision.step_down(leader, now=now)
    return leader


async def free_lead(database: Database) -> None:
    """As if whoever leads had stepped down: a test need not wait for the lease of one that hangs."""
    store = database.store()
    await store.open()
    try:
        await store.supervision.step_down(await store.supervision.leader(), now=SystemClock().now())
    finally:
        await store.close()
