"""Brings the schema up to date."""

from __future__ import annotations

from typing import Final

import asyncpg

from backstay.errors import InvalidSetting, StoreUnavailable
from backstay.sql.migrations import Migration, load_migrations, outstanding
from backstay.store.postgres.sealing import SEALING, seal_plain
from backstay.store.postgres.tables import Tables
from backstay.store.postgres.url import Address
from backstay.vault import Vault

_PACKAGE: Final = "backstay.store.postgres"
_SCHEMA: Final = "CREATE SCHEMA {schema}"
_MIGRATION_TABLE: Final = """
CREATE TABLE {schema}.migration (number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL)
"""


async def is_store(tables: Tables, address: Address) -> bool:
    """Whether there is a store of ours. Looks without touching anything."""
    [[found]] = await tables.run("has_store", name=f"{address.schema}.migration")
    return bool(found)


async def migrate(tables: Tables, address: Address, *, vault: Vault) -> int:
    """Apply what is missing, all of it or nothing; the number of migrations applied.

    Raises SecretKeyMissing where there are secrets in plain text and no key to seal them with.
    """
    connection = tables.connection
    async with connection.transaction():
        # Two processes that find an empty database must not both fill it.
        await tables.run("one_at_a_time", name=f"backstay {address.schema}")
        if not await is_store(tables, address):
            await _create(tables, address)
        applied = {row[0]: row[1] for row in await tables.run("applied_migrations")}
        missing = outstanding(load_migrations(_PACKAGE), applied)
        for migration in missing:
            await _apply(tables, migration, address)
            if migration.number == SEALING:
                await seal_plain(tables, vault)
    return len(missing)


async def _create(tables: Tables, address: Address) -> None:
    name, label = address.schema, address.label
    [[in_sql, exists]] = await tables.run("schema_facts", name=name)
    if in_sql != name:
        raise InvalidSetting(
            f"schema in the store's URL is {name!r}, a word that PostgreSQL keeps for itself; choose another"
        )
    try:
        # Even where it exists, nobody may "create it if not" who may not create.
        if not exists:
            await tables.connection.execute(_SCHEMA.replace("{schema}", name))
        await tables.connection.execute(_MIGRATION_TABLE.replace("{schema}", name))
    except asyncpg.InsufficientPrivilegeError as error:
        if exists:
            raise StoreUnavailable(
                f"{label}: this user may not make tables in the schema {name} ({error});"
                " have CREATE on the schema granted"
            ) from error
        raise StoreUnavailable(
            f"{label}: the schema {name} is not there, and this user may not make it"
            f" ({error}); have it made, or grant CREATE on the database"
        ) from error


async def _apply(tables: Tables, migration: Migration, address: Address) -> None:
    await tables.connection.execute(migration.sql.replace("{schema}", address.schema))
    await tables.run(
        "insert_migration", number=migration.number, name=migration.name, checksum=migration.checksum
    )
