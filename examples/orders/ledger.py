"""What the payment provider keeps: payments, and how its test tokens behave."""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from typing import Final

import msgspec

LISTED_MAX: Final = 100


class Behaviour(StrEnum):
    WORKS = "works"
    DECLINED = "declined"  # refused for good
    FLAKY = "flaky"  # the first call for a payment is told to come again
    SLOW = "slow"  # the first call for a payment is carried out, but not answered
    STUCK = "stuck"  # no call is carried out or answered until the behaviour is another


class State(StrEnum):
    ASKED = "asked"  # somebody called, and nothing was charged
    CHARGED = "charged"
    REFUNDED = "refunded"  # and stays so


TEST_TOKENS: Final = {
    "tok_visa": Behaviour.WORKS,
    "tok_declined": Behaviour.DECLINED,
    "tok_flaky": Behaviour.FLAKY,
    "tok_slow": Behaviour.SLOW,
    "tok_stuck": Behaviour.STUCK,
}

_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS payment (
        number INTEGER PRIMARY KEY,
        id     TEXT    NOT NULL UNIQUE,
        cents  INTEGER NOT NULL DEFAULT 0,
        state  TEXT    NOT NULL DEFAULT 'asked' CHECK (state IN ('asked', 'charged', 'refunded')),
        calls  INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE IF NOT EXISTS token (token TEXT PRIMARY KEY, behaviour TEXT NOT NULL) STRICT;
"""


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """``calls`` is how often somebody asked for it to be charged."""

    id: str
    cents: int
    state: State
    calls: int


class LedgerUnusable(Exception):
    """The file cannot be opened as a ledger; says which and why."""


class Ledger:
    """One file, used on one thread: its writes are short, and nobody else is in it."""

    def __init__(self, file: str) -> None:
        try:
            self._connection = sqlite3.connect(file)
            self._connection.executescript(_SCHEMA)
            with self._connection as connection:
                connection.executemany("INSERT OR IGNORE INTO token VALUES (?, ?)", TEST_TOKENS.items())
        except sqlite3.Error as error:
            raise LedgerUnusable(f"cannot use {file}: {error}; give another --database") from error

    # Payments

    def called(self, payment_id: str) -> Payment:
        """Count a call for this payment, before it is known what becomes of it."""
        with self._connection as connection:
            connection.execute(
                "INSERT INTO payment (id, calls) VALUES (?, 1)"
                " ON CONFLICT (id) DO UPDATE SET calls = calls + 1",
                [payment_id],
            )
        return self.payment(payment_id)

    def charge(self, payment_id: str, cents: int) -> None:
        """Charge it, unless that was done already, or it was refunded."""
        with self._connection as connection:
            connection.execute(
                "UPDATE payment SET cents = ?, state = 'charged' WHERE id = ? AND state = 'asked'",
                [cents, payment_id],
            )

    def refund(self, payment_id: str) -> None:
        """Refund it; from now on nothing can be charged under this id, even if nothing was."""
        with self._connection as connection:
            connection.execute(
                "INSERT INTO payment (id, state) VALUES (?, 'refunded')"
                " ON CONFLICT (id) DO UPDATE SET state = 'refunded'",
                [payment_id],
            )

    def payment(self, payment_id: str) -> Payment:
        """The payment as it stands; one that nobody asked for has not been called for either."""
        row = self._connection.execute(
            "SELECT id, cents, state, calls FROM payment WHERE id = ?", [payment_id]
        ).fetchone()
        return _payment(*row) if row else _payment(payment_id, 0, State.ASKED, 0)

    def newest(self) -> list[Payment]:
        rows = self._connection.execute(
            "SELECT id, cents, state, calls FROM payment ORDER BY number DESC LIMIT ?", [LISTED_MAX]
        )
        return [_payment(*row) for row in rows]

    # Tokens

    def behaviour(self, token: str) -> Behaviour | None:
        row = self._connection.execute("SELECT behaviour FROM token WHERE token = ?", [token]).fetchone()
        return None if row is None else Behaviour(row[0])

    def change(self, token: str, behaviour: Behaviour) -> None:
        with self._connection as connection:
            connection.execute("INSERT OR REPLACE INTO token VALUES (?, ?)", [token, behaviour])


def _payment(payment_id: str, cents: int, state: str, calls: int) -> Payment:
    return Payment(id=payment_id, cents=cents, state=State(state), calls=calls)
