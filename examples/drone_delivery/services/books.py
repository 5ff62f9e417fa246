"""What the files of the services say, for whoever reconciles them; the services may run meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from drone_delivery.addresses import DEFAULT_PORTS

FILES: Final = tuple(f"{service}.db" for service in DEFAULT_PORTS)

# What was cancelled before it was created has no content, and is nothing that was ever there.
_PACKAGES: Final = "SELECT id, NOT cancelled FROM record WHERE content IS NOT NULL"

_CHECKS: Final = """
SELECT id, NOT cancelled, content ->> '$.required' FROM record WHERE content IS NOT NULL
"""

# The drone is that of the last assignment: beside one max() SQLite takes columns from the row that has it.
_ASSIGNMENTS: Final = """
SELECT record.id, event.drone_id, content ->> '$.packageDetail.id', NOT cancelled, count(event.number),
       max(event.number)
  FROM record LEFT JOIN event ON event.delivery_id = record.id AND event.kind = 'assigned'
 WHERE content IS NOT NULL
 GROUP BY record.id
"""

_DELIVERIES: Final = """
SELECT record.id, record.content ->> '$.droneId', NOT cancelled, count(event.number)
  FROM record LEFT JOIN event ON event.delivery_id = record.id AND event.stage = 'Created'
 WHERE record.content IS NOT NULL
 GROUP BY record.id
"""

_HAS_CALLS: Final = "SELECT 1 FROM sqlite_master WHERE name = 'call_repeated'"

_REPEATED: Final = "SELECT coalesce(sum(times - 1), 0) FROM call WHERE times > 1"

_KEYS: Final = "SELECT count(*) FROM call"


@dataclass(frozen=True, slots=True)
class KeptPackage:
    id: str
    live: bool


@dataclass(frozen=True, slots=True)
class KeptCheck:
    """A third-party check; ``required``: an external carrier is needed."""

    id: str
    live: bool
    required: bool


@dataclass(frozen=True, slots=True)
class Assignment:
    """A drone and the delivery it was given to; ``times``: how many drones that delivery was ever given."""

    delivery_id: str
    drone_id: str
    package_id: str
    live: bool
    times: int


@dataclass(frozen=True, slots=True)
class KeptDelivery:
    """A delivery; ``times_created``: its tracking events that say Created."""

    id: str
    drone_id: str
    live: bool
    times_created: int


@dataclass(frozen=True, slots=True)
class Books:
    """Everything that the services ever kept; ``repeated``: calls that came again under their key."""

    packages: tuple[KeptPackage, ...]
    checks: tuple[KeptCheck, ...]
    assignments: tuple[Assignment, ...]
    deliveries: tuple[KeptDelivery, ...]
    repeated: int


@dataclass(frozen=True, slots=True)
class Calls:
    """How many calls with a key came, and how many of them had come before."""

    total: int = 0
    repeated: int = 0


def read_books(folder: Path) -> Books:
    """Raises FileNotFoundError when a file is missing: what is not there cannot be reconciled."""
    for name in FILES:
        if not (folder / name).exists():
            raise FileNotFoundError(f"{folder} has no {name}; give the folder with the files of all services")
    return Books(
        packages=tuple(
            KeptPackage(package_id, bool(live))
            for package_id, live in _rows(folder / "package.db", _PACKAGES)
        ),
        checks=tuple(
            KeptCheck(check_id, bool(live), bool(required))
            for check_id, live, required in _rows(folder / "third-party.db", _CHECKS)
        ),
        assignments=tuple(
            Assignment(delivery_id, drone_id, package_id, bool(live), times)
            for delivery_id, drone_id, package_id, live, times, _ in _rows(folder / "drone.db", _ASSIGNMENTS)
        ),
        deliveries=tuple(
            KeptDelivery(delivery_id, drone_id, bool(live), times_created)
            for delivery_id, drone_id, live, times_created in _rows(folder / "delivery.db", _DELIVERIES)
        ),
        repeated=count_calls(folder).repeated,
    )


def count_calls(folder: Path) -> Calls:
    """Of all services; a file that is not there yet counts as nothing."""
    counts = [_count(folder / name) for name in FILES]
    return Calls(sum(calls.total for calls in counts), sum(calls.repeated for calls in counts))


def _count(path: Path) -> Calls:
    if not path.exists():
        return Calls()
    with _reading(path) as connection:
        if connection.execute(_HAS_CALLS).fetchone() is None:
            return Calls()
        [keys] = connection.execute(_KEYS).fetchone()
        [repeated] = connection.execute(_REPEATED).fetchone()
    return Calls(keys + repeated, repeated)


def _rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with _reading(path) as connection:
        return connection.execute(query).fetchall()


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction, so that all of it is read as of one moment."""
    with closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    ) as connection:
        connection.execute("BEGIN")
        yield connection
