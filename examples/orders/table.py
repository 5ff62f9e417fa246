"""The table of orders, in the store's own SQLite file: an order and its task commit together."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from orders.order import Order

#: Who writes waits for who writes, but not for ever.
LOCK_SECONDS: Final = 5.0

_CREATE: Final = """
    CREATE TABLE IF NOT EXISTS orders (
        number     INTEGER PRIMARY KEY,
        id         TEXT    NOT NULL UNIQUE,
        customer   TEXT    NOT NULL,
        cents      INTEGER NOT NULL CHECK (cents > 0),
        card_token TEXT    NOT NULL
    ) STRICT
"""


class OtherContent(Exception):
    """The id is taken by an order with other content."""


class OrderTable:
    """Each call opens a connection of its own and blocks: call it in a thread."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def create(self) -> None:
        with self._transaction() as connection:
            connection.execute(_CREATE)

    @contextmanager
    def placing(self, order: Order) -> Iterator[sqlite3.Connection]:
        """The order, and whatever the context writes on this connection, is written; or nothing is.

        The same order again changes nothing. Raises OtherContent when the id is taken by another order.
        """
        with self._transaction() as connection:
            # The write comes first: a transaction that begins with a read may not be let write later.
            connection.execute(
                "INSERT INTO orders (id, customer, cents, card_token) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (id) DO NOTHING",
                [order.id, order.customer, order.cents, order.card_token],
            )
            if _found(connection, order.id) != order:
                raise OtherContent(order.id)
            yield connection

    def find(self, order_id: str) -> Order | None:
        with self._transaction() as connection:
            return _found(connection, order_id)

    def newest(self, *, limit: int) -> list[Order]:
        with self._transaction() as connection:
            rows = connection.execute(
                "SELECT id, customer, cents, card_token FROM orders ORDER BY number DESC LIMIT ?", [limit]
            )
            return [_order(*row) for row in rows]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commits at the end, or rolls back."""
        with closing(sqlite3.connect(self._file, timeout=LOCK_SECONDS)) as connection, connection:
            yield connection


def _found(connection: sqlite3.Connection, order_id: str) -> Order | None:
    row = connection.execute(
        "SELECT id, customer, cents, card_token FROM orders WHERE id = ?", [order_id]
    ).fetchone()
    return None if row is None else _order(*row)


def _order(order_id: str, customer: str, cents: int, card_token: str) -> Order:
    return Order(id=order_id, customer=customer, cents=cents, card_token=card_token)
