"""Stores of earlier schemas, in a database of a test."""

from __future__ import annotations

from typing import Any

from backstay.sql.migrations import Migration, load_migrations
from backstay.store.base import Store
from backstay.vault import Vault
from tests.migration.dumps import dump_of, load_postgres, load_sqlite
from tests.support.databases import SECRET_KEY, Database, PostgresDatabase, Row, SqliteDatabase


def dialect_of(database: Database) -> str:
    return "sqlite" if isinstance(database, SqliteDatabase) else "postgres"


def migrations(dialect: str) -> list[Migration]:
    return load_migrations(f"backstay.store.{dialect}")


def run_script(database: Database, script: str) -> None:
    """Run SQL past all stores, in which ``{schema}`` stands for the schema of a server."""
    if isinstance(database, SqliteDatabase):
        load_sqlite(database.path, script)
    elif isinstance(database, PostgresDatabase):
        load_postgres(database.look, database.schema, script)


def restore(database: Database, number: int) -> None:
    """Put the store there that was kept with schema ``number``."""
    run_script(database, dump_of(dialect_of(database), number).read_text("utf-8"))


def today(database: Database, **options: Any) -> Store:
    """The store of today there, not yet opened; with a key for its secrets."""
    return database.store(**{"vault": Vault(SECRET_KEY), **options})


def tables(database: Database) -> dict[str, tuple[str, ...]]:
    """The columns of each table."""
    if isinstance(database, PostgresDatabase):
        found = database.rows(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = ?"
            " ORDER BY table_name, ordinal_position",
            database.schema,
        )
    else:
        found = database.rows(
            "SELECT made.name, info.name FROM sqlite_master AS made, pragma_table_info(made.name) AS info"
            " WHERE made.type = 'table' AND made.name NOT LIKE 'sqlite%' ORDER BY made.name, info.cid"
        )
    names = dict.fromkeys(table for table, _ in found)
    return {name: tuple(column for table, column in found if table == name) for name in names}


def rows_of(database: Database, columns: dict[str, tuple[str, ...]]) -> dict[str, list[Row]]:
    """Every row of these tables, as far as these columns go, in some order that stays."""
    return {table: sorted(_rows(database, table, names), key=repr) for table, names in columns.items()}


def _rows(database: Database, table: str, columns: tuple[str, ...]) -> list[Row]:
    quoted = ", ".join(f'"{name}"' for name in columns)
    return database.rows(f'SELECT {quoted} FROM "{table}"')
