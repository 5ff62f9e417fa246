"""Stock, bank and carrier as the outside world: what they did stays done, whoever dies.

Each keeps the promise that a good service makes: called twice with one idempotency key it acts once
and answers twice. The log is what the demo is reconciled against.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

from backstay import Permanent, current_step

#: Each thing that can be done to an order, and what takes it back.
TAKEN_BACK_BY: Final = {"reserve": "release", "charge": "refund", "ship": "call back"}

NO_ROAD_TO: Final = "Atlantis"

# How long a call travels, there and back again.
_TRAVEL_SECONDS: Final = (0.005, 0.04)

# One answer in fifty is lost although the work was done.
_LOST_ANSWERS: Final = 0.02

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS effect (
    key TEXT PRIMARY KEY,  -- the caller's idempotency key
    order_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    calls INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX IF NOT EXISTS effect_order ON effect (order_id, operation);
"""

_DO: Final = """
INSERT INTO effect (key, order_id, operation) VALUES (:key, :order_id, :operation)
ON CONFLICT (key) DO UPDATE SET calls = calls + 1
"""

# What was never done needs no taking back.
_TAKE_BACK: Final = """
INSERT INTO effect (key, order_id, operation)
SELECT :key, :order_id, :operation
 WHERE EXISTS (SELECT 1 FROM effect WHERE order_id = :order_id AND operation = :done)
ON CONFLICT (key) DO UPDATE SET calls = calls + 1
"""


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that a service did once, and how often it was asked to."""

    key: str
    order_id: str
    operation: str
    calls: int


class Services:
    """All services, in one file."""

    def __init__(self, log: Path, chance: Random) -> None:
        self._log = sqlite3.connect(log, isolation_level=None)
        # Enough to survive the death of a process; surviving a power cut is not the point here.
        self._log.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; {_SCHEMA}")
        self._chance = chance

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.close()

    async def do(self, operation: str, order_id: str) -> str:
        """Do something for an order; a kill may fall before it, after it, and before the answer."""
        await self._travel()
        self._write(_DO, order_id, operation)
        await self._travel()
        if self._chance.random() < _LOST_ANSWERS:
            raise ConnectionError(f"no answer to {operation}")
        return f"{operation}-{order_id}"

    async def take_back(self, operation: str, order_id: str) -> None:
        await self._travel()
        self._write(_TAKE_BACK, order_id, TAKEN_BACK_BY[operation], done=operation)
        await self._travel()

    async def look_up(self, customer: str) -> bool:
        """A question: nothing is done, so there is nothing to undo."""
        await self._travel()
        return customer != ""

    async def ship(self, order_id: str, city: str) -> str:
        if city == NO_ROAD_TO:
            await self._travel()
            raise Permanent(f"no road leads to {city}")
        return await self.do("ship", order_id)

    def _write(self, statement: str, order_id: str, operation: str, *, done: str | None = None) -> None:
        key = current_step().idempotency_key
        self._log.execute(statement, {"key": key, "order_id": order_id, "operation": operation, "done": done})

    async def _travel(self) -> None:
        await asyncio.sleep(self._chance.uniform(*_TRAVEL_SECONDS))


def read_log(log: Path) -> list[Effect]:
    """Everything that the services ever did."""
    with closing(sqlite3.connect(log)) as connection:
        rows = connection.execute("SELECT key, order_id, operation, calls FROM effect").fetchall()
    return [Effect(*row) for row in rows]


def count_effects(log: Path) -> Counter[str]:
    """How often each thing was done, and under ``repeated`` how often a call was recognised."""
    with closing(sqlite3.connect(log)) as connection:
        rows = connection.execute(
            "SELECT operation, count(*), sum(calls - 1) FROM effect GROUP BY operation"
        ).fetchall()
    counts: Counter[str] = Counter({operation: times for operation, times, _ in rows})
    counts["repeated"] = sum(repeated for _, _, repeated in rows)
    return counts
