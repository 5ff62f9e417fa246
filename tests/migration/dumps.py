"""A store as SQL text, and a store again of such text: tables with all their rules, and every row."""

from __future__ import annotations

import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg

from tests.support.postgres import PostgresServer

KEPT = Path(__file__).with_name("kept")

# What a dump says of the program that wrote it and of the session that reads it.
_OF_THE_SESSION = re.compile(r"^(--.*|SET .*;|SELECT pg_catalog\.set_config\(.*;|\\(un)?restrict .*)$")


def kept(dialect: str) -> list[int]:
    """The numbers of the schemas of which there is a dump."""
    return sorted(int(file.stem.partition("-")[2]) for file in KEPT.glob(f"{dialect}-*.sql"))


def dump_of(dialect: str, number: int) -> Path:
    return KEPT / f"{dialect}-{number}.sql"


def writes_of(dialect: str, number: int) -> Path:
    """What a process of that schema writes, in the statements of its release."""
    return KEPT / "writes" / f"{dialect}-{number}.sql"


# SQLite


def dump_sqlite(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def load_sqlite(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


# PostgreSQL


def dump_postgres(server: PostgresServer, schema: str) -> str:
    """In it ``{schema}`` stands for the name of the schema."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        _put_in_order(connection, schema)
    what = ["--inserts", "--column-inserts", "--no-owner", "--no-privileges", f"--schema={schema}"]
    dumped = subprocess.run(
        [str(server._programs / "pg_dump"), *what, server.url()], check=True, capture_output=True, text=True
    )
    script = "\n".join(_without_session(dumped.stdout))
    return script.replace(schema, "{schema}")


def load_postgres(connection: psycopg.Connection, schema: str, script: str) -> None:
    connection.execute("SET check_function_bodies = off")
    connection.execute(script.replace("{schema}", schema).encode())
    connection.execute("RESET check_function_bodies")


def _put_in_order(connection: psycopg.Connection, schema: str) -> None:
    """By their keys, not where an update happened to put them; without what belongs to one process."""
    connection.execute(f"DELETE FROM {schema}.writer")
    keys = connection.execute(
        "SELECT indrelid::regclass, indexrelid::regclass::name FROM pg_index"
        " WHERE indisprimary AND indrelid IN"
        "       (SELECT oid FROM pg_class WHERE relnamespace = %s::regnamespace)",
        [schema],
    )
    for table, key in keys.fetchall():
        connection.execute(f"CLUSTER {table} USING {key.rpartition('.')[2]}")
        connection.execute(f"ALTER TABLE {table} SET WITHOUT CLUSTER")


def _without_session(dump: str) -> Iterator[str]:
    before = ""
    for line in dump.splitlines():
        if _OF_THE_SESSION.match(line) or not (line or before):
            continue
        yield line
        before = line
