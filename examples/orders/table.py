"""The table of orders, in the store's own database, SQLite or PostgreSQL: a row commits with its task."""

from __future__ import annotations

import re
import sqlite3
from typing import Any, Final

from backstay import IdConflict
from orders.order import Order

# A shop that is older than an hour has migrations for this.
_CREATE: Final = """
    CREATE TABLE IF NOT EXISTS orders (
        id         TEXT    PRIMARY KEY,
        customer   TEXT    NOT NULL,
        cents      INTEGER NOT NULL CHECK (cents > 0),
        card_token TEXT    NOT NULL
    )
"""
_INSERT: Final = """
    INSERT INTO orders (id, customer, cents, card_token) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING
"""
_FIND: Final = "SELECT id, customer, cents, card_token FROM orders WHERE id = $1"


async def write(connection: Any, order: Order) -> None:
    """The same order again changes nothing. Raises IdConflict when its id is taken by another order."""
    columns = (order.id, order.customer, order.cents, order.card_token)
    await _run(connection, _CREATE)
    await _run(connection, _INSERT, *columns)
    [found] = await _run(connection, _FIND, order.id)
    if tuple(found) != columns:
        raise IdConflict(order.id)


async def _run(connection: Any, sql: str, *values: object) -> list[Any]:
    """The rows that a statement gives, on a connection of sqlite3 or of asyncpg."""
    if isinstance(connection, sqlite3.Connection):
        return connection.execute(re.sub(r"\$\d", "?", sql), values).fetchall()
    rows: list[Any] = await connection.fetch(sql, *values)
    return rows
