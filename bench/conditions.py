"""What the figures were measured on. Without it they say nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from bench.databases import DATABASES

_SYNCS: Final = 50
_SYNC_BYTES: Final = 4096
_LOOP_TURNS: Final = 5_000_000


class StoreConditions(msgspec.Struct, frozen=True):
    """``sync_ms``: the median time that 4 KiB take to reach the disk, on the file system of the store."""

    name: str
    version: str
    sync_ms: float


class Conditions(msgspec.Struct, frozen=True):
    """``cpu_seconds``: a fixed loop in pure Python, as a yardstick between machines and hours."""

    at: datetime
    system: str
    cores: int
    python: str
    uvloop: str
    backstay: str
    cpu_seconds: float
    stores: list[StoreConditions]


def conditions(stores: Sequence[str]) -> Conditions:
    return Conditions(
        at=datetime.now(UTC).replace(microsecond=0),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cores=_cores(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        uvloop=importlib.metadata.version("uvloop"),
        backstay=importlib.metadata.version("backstay"),
        cpu_seconds=round(_cpu_seconds(), 3),
        stores=[_store_conditions(store) for store in stores],
    )


def described(found: Conditions) -> str:
    stores = "; ".join(
        f"{store.name} {store.version}, fdatasync of 4 KiB {store.sync_ms} ms" for store in found.stores
    )
    return (
        f"{found.at.isoformat()}, {found.system}, {found.cores} cores, {found.python}, uvloop {found.uvloop},"
        f" backstay {found.backstay}\n"
        f"yardstick: {_LOOP_TURNS:,} turns of a Python loop {found.cpu_seconds} s; {stores}"
    )


def _cores() -> int:
    """Those that this process may use, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _store_conditions(store: str) -> StoreConditions:
    with DATABASES[store]() as database:
        return StoreConditions(database.name, database.version, round(_sync_ms(database.folder), 3))


def _sync_ms(folder: Path) -> float:
    block = os.urandom(_SYNC_BYTES)
    # macOS has no fdatasync.
    sync = getattr(os, "fdatasync", os.fsync)
    taken = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_SYNCS):
            begun = time.perf_counter()
            os.write(file.fileno(), block)
            sync(file.fileno())
            taken.append(time.perf_counter() - begun)
    return statistics.median(taken) * 1000


def _cpu_seconds() -> float:
    begun = time.perf_counter()
    total = 0
    for number in range(_LOOP_TURNS):
        total += number & 7
    return time.perf_counter() - begun
