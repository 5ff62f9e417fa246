"""A process that opens the store of a URL, enters a task of its own by an id, and ends."""

from __future__ import annotations

import asyncio
import sys

from backstay.clock import SystemClock
from backstay.store.base import Store
from backstay.store.postgres import PostgresStore
from backstay.store.sqlite import SqliteStore
from backstay.testing.records import new_task
from backstay.vault import Vault
from tests.support.databases import SECRET_KEY


async def main(url: str, task_id: str) -> None:
    kind = SqliteStore if url.startswith("sqlite:") else PostgresStore
    store: Store = kind(url, vault=Vault(SECRET_KEY))
    print("opening", flush=True)
    await store.open()
    await store.submit([new_task(task_id)], now=SystemClock().now())
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
