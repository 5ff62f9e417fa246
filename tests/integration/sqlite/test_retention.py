"""What is kept only for a while is removed as the new comes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from backstay.store.records import Remembered
from backstay.store.sqlite import SqliteStore
from backstay.testing import ManualClock
from tests.integration.sqlite.file import rows


async def test_expired_idempotency_keys_are_removed_as_new_ones_come(
    store: SqliteStore, path: Path, clock: ManualClock
):
    keep, meant = timedelta(hours=1), Remembered(digest="d", task_id="t")
    for number in range(25):
        await store.records.remember(f"old-{number}", meant, keep=keep, now=clock.now())
    clock.pass_time(2 * keep)

    for number in range(3):
        await store.records.remember(f"new-{number}", meant, keep=keep, now=clock.now())

    left = [row for row in rows(path) if row.startswith('INSERT INTO "idempotency_key"')]
    assert [row.split("'")[1] for row in left] == ["new-0", "new-1", "new-2"]
