"""What is kept only for a while is removed as the new comes."""

from __future__ import annotations

from datetime import timedelta

from backstay.store.postgres import PostgresStore
from backstay.store.records import Remembered
from backstay.testing import ManualClock
from tests.integration.postgres.schema import Schema


async def test_expired_idempotency_keys_are_removed_as_new_ones_come(
    store: PostgresStore, clock: ManualClock, schema: Schema
):
    keep, meant = timedelta(hours=1), Remembered(digest="d", task_id="t")
    for number in range(25):
        await store.records.remember(f"old-{number}", meant, keep=keep, now=clock.now())
    clock.pass_time(2 * keep)

    for number in range(3):
        await store.records.remember(f"new-{number}", meant, keep=keep, now=clock.now())

    left = await schema.rows("SELECT key FROM {schema}.idempotency_key ORDER BY key")
    assert left == [("new-0",), ("new-1",), ("new-2",)]
