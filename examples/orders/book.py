"""What the web application keeps, in a file of its own: the orders it took, and what it was told of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Final

import msgspec

from orders.order import Order

#: Who writes waits for who writes, but not for ever.
LOCK_SECONDS: Final = 5.0

_CREATE: Final = """
    CREATE TABLE IF NOT EXISTS placed (
        number INTEGER PRIMARY KEY,
        id     TEXT NOT NULL UNIQUE,
        body   BLOB NOT NULL
    ) STRICT;
    -- A message that comes again is known by its id.
    CREATE TABLE IF NOT EXISTS told (
        message  TEXT    PRIMARY KEY,
        id       TEXT    NOT NULL,
        sequence INTEGER NOT NULL,
        body     BLOB    NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX IF NOT EXISTS told_in_order ON told (id, sequence);
"""


class OtherContent(Exception):
    """The id is taken by an order with other content."""


class Reason(msgspec.Struct, frozen=True):
    message: str


class Status(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a status message says, as far as it matters here; its ``task_id`` is the id of an order."""

    task_id: str
    status: str
    sequence: int
    at: datetime
    error: Reason | None = None


class Entry(msgspec.Struct, frozen=True):
    """An order, and what was told of it, oldest first."""

    order: Order
    told: list[Status]


class Book:
    """Each call opens a connection of its own and blocks: call it in a thread."""

    def __init__(self, file: str) -> None:
        self._file = file

    def place(self, order: Order) -> None:
        """Write an order down. The same one again changes nothing; raises OtherContent when it is another."""
        with self._transaction() as connection:
            # The write comes first: a transaction that begins with a read may not be let write later.
            connection.execute(
                "INSERT INTO placed (id, body) VALUES (?, ?) ON CONFLICT (id) DO NOTHING",
                [order.id, msgspec.json.encode(order)],
            )
            [body] = connection.execute("SELECT body FROM placed WHERE id = ?", [order.id]).fetchone()
            if _order(body) != order:
                raise OtherContent(order.id)

    def hear(self, message_id: str, status: Status) -> None:
        """Write down what was told, once, however often the message comes."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO told VALUES (?, ?, ?, ?) ON CONFLICT (message) DO NOTHING",
                [message_id, status.task_id, status.sequence, msgspec.json.encode(status)],
            )

    def find(self, order_id: str) -> Entry | None:
        with self._transaction() as connection:
            row = connection.execute("SELECT body FROM placed WHERE id = ?", [order_id]).fetchone()
            return None if row is None else _entry(connection, _order(row[0]))

    def newest(self, *, limit: int) -> list[Entry]:
        with self._transaction() as connection:
            rows = connection.execute("SELECT body FROM placed ORDER BY number DESC LIMIT ?", [limit])
            return [_entry(connection, _order(body)) for (body,) in rows.fetchall()]

    def unheard(self, *, limit: int) -> list[Order]:
        """The newest orders of which nothing was told yet."""
        with self._transaction() as connection:
            rows = connection.execute(
                "SELECT body FROM placed WHERE NOT EXISTS (SELECT 1 FROM told WHERE told.id = placed.id)"
                " ORDER BY number DESC LIMIT ?",
                [limit],
            )
            return [_order(body) for (body,) in rows]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commits at the end, or rolls back."""
        with closing(sqlite3.connect(self._file, timeout=LOCK_SECONDS)) as connection:
            connection.executescript(_CREATE)
            with connection:
                yield connection


def _entry(connection: sqlite3.Connection, order: Order) -> Entry:
    rows = connection.execute("SELECT body FROM told WHERE id = ? ORDER BY sequence", [order.id])
    return Entry(order, [msgspec.json.decode(body, type=Status) for (body,) in rows])


def _order(body: bytes) -> Order:
    return msgspec.json.decode(body, type=Order)
