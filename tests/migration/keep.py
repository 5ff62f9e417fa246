"""``python -m tests.migration.keep``: keep a store of the newest schema, for all releases to come.

To be run at each release, with its code: what it writes is what that release really wrote. A dump that is
kept is never made again, since a later release writes otherwise.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from backstay.sql.migrations import load_migrations
from backstay.store.base import Store
from tests.migration.content import INLINE_BYTES_MAX, fill
from tests.migration.dumps import KEPT, dump_of, dump_postgres, dump_sqlite
from tests.support.databases import PostgresDatabase, SqliteDatabase, connect
from tests.support.postgres import PostgresServer


def newest(dialect: str) -> int:
    return len(load_migrations(f"backstay.store.{dialect}"))


def sqlite_dump(folder: Path) -> str:
    """A store that was filled just now, as text."""
    database = SqliteDatabase(folder / "kept.db")
    asyncio.run(_filled(database.store(inline_bytes_max=INLINE_BYTES_MAX, **_sealing())))
    return dump_sqlite(database.path)


def postgres_dump(server: PostgresServer) -> str:
    with closing(connect(server)) as look:
        database = PostgresDatabase(server, look)
        asyncio.run(_filled(database.store(inline_bytes_max=INLINE_BYTES_MAX, server_clock=False)))
        return dump_postgres(server, database.schema)


def _sealing() -> dict[str, Any]:
    """A key that is known later, too, where the release seals secrets at all."""
    if find_spec("backstay.vault") is None:
        return {}
    vault, databases = import_module("backstay.vault"), import_module("tests.support.databases")
    return {"vault": vault.Vault(databases.SECRET_KEY)}


async def _filled(store: Store) -> None:
    await store.open()
    try:
        await fill(store)
    finally:
        await store.close()


def _keep(dialect: str, dump: str) -> None:
    file = dump_of(dialect, newest(dialect))
    if file.exists():
        print(f"{file.name} is kept already, and stays as it is")
        return
    KEPT.mkdir(exist_ok=True)
    file.write_text(dump, "utf-8")
    print(f"{file.name} is new: commit it")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        _keep("sqlite", sqlite_dump(Path(folder)))
        _keep("postgres", postgres_dump(server))


if __name__ == "__main__":
    main()
