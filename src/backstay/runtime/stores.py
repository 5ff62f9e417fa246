"""Which store a URL names, and a client on it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path

from backstay.client import Client
from backstay.clock import Clock, SystemClock
from backstay.definitions.registry import Registry
from backstay.domain.instants import micros_in
from backstay.errors import InvalidSetting
from backstay.messaging.logs import log_of
from backstay.settings import Settings
from backstay.sql.sqlite.connection import path_of
from backstay.store.base import Store
from backstay.store.sqlite import SqliteStore
from backstay.store.sqlite.store import key_path
from backstay.vault import KeyFile, Vault


def open_store(settings: Settings) -> Store:
    """The store that ``settings.store`` names; not connected yet."""
    scheme = settings.store.split(":", 1)[0]
    if scheme == "sqlite":
        return SqliteStore(
            settings.store, inline_bytes_max=settings.inline_bytes_max, vault=vault_of(settings)
        )
    if scheme in ("postgresql", "postgres"):
        return _postgres(settings)
    raise InvalidSetting(
        f"store has the scheme {scheme!r}; known: sqlite (sqlite:///relative.db, sqlite:////absolute.db)"
        " and postgresql (postgresql://user@host:port/database)"
    )


def vault_of(settings: Settings) -> Vault:
    """The keys that seal and open secrets of jobs. Where hosts share a store none makes a file by itself."""
    is_file = settings.store.startswith("sqlite:")
    path = settings.secret_key_file
    if not path and is_file:
        path = str(key_path(path_of(settings.store)))
    return Vault(settings.secret_key, KeyFile(Path(path), may_make=is_file) if path else None)


def store_label(settings: Settings) -> str:
    """The store as people may read it: without its password."""
    if settings.store.startswith("sqlite:"):
        return settings.store
    from backstay.store.postgres.url import address_of  # noqa: PLC0415  As below.

    return address_of(settings.store).label


def _postgres(settings: Settings) -> Store:
    # Its driver is an extra: who stays with SQLite needs none.
    try:
        from backstay.store.postgres import PostgresStore  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise InvalidSetting(
            "a store on PostgreSQL needs the driver asyncpg: pip install 'backstay[postgres]'"
        ) from error
    return PostgresStore(
        settings.store,
        inline_bytes_max=settings.inline_bytes_max,
        connections=settings.store_connections,
        accept_data_loss=settings.accept_data_loss,
        vault=vault_of(settings),
    )


class StoreClock(SystemClock):
    """The machine's clock, set by the store's: hosts that share a store agree on the time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def now(self) -> datetime:
        now = super().now()
        ahead = self._store.ahead
        return now + ahead if ahead else now

    def micros(self) -> int:
        now = time.time_ns() // 1000
        ahead = self._store.ahead
        return now + micros_in(ahead) if ahead else now


@asynccontextmanager
async def connected(
    registry: Registry,
    settings: Settings,
    *,
    store: Store | None = None,
    clock: Clock | None = None,
    must_exist: bool = False,
) -> AsyncIterator[Client]:
    """A client on an open store. Runs no role: tasks are moved by other processes."""
    opened = store or open_store(settings)
    log = log_of(settings)
    await opened.open(must_exist=must_exist)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(opened.close)
        clock = clock or StoreClock(opened)
        client = Client(opened, registry, settings=settings, clock=clock, log=log)
        closing.push_async_callback(client.close)
        await client.open(must_exist=must_exist)
        yield client
