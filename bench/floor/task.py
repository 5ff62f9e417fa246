"""What a task writes: itself, five steps before and after they are done, its end."""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Iterable
from enum import IntEnum
from typing import Any, Protocol

from bench.load import Size, crowd
from bench.points import Point

STEPS = 5

Row = tuple[Any, ...]


class Write(IntEnum):
    """The kinds of write. A committer has one statement for each."""

    INSERT_TASK = 0  # key, state, input, at
    INSERT_STEP = 1  # task, key, state, input, at
    UPDATE_STEP = 2  # task, key, state, output, at
    UPDATE_TASK = 3  # key, state, output, at


class Committer(Protocol):
    def write(self, kind: Write, row: Row) -> Awaitable[None]:
        """Comes back once the row is durable."""


def rows_by_kind(gathered: Iterable[tuple[Write, Row, object]]) -> list[list[Row]]:
    """The rows of each kind. A list, since the hash of an enumeration is a call in Python."""
    rows: list[list[Row]] = [[] for _ in Write]
    for kind, row, _ in gathered:
        rows[kind].append(row)
    return rows


async def load_on(committer: Committer, size: Size) -> Point:
    """Run tasks, so many at a time."""
    keys = itertools.count(1)
    return await crowd(lambda: _one_task(committer, next(keys)), size)


async def _one_task(committer: Committer, key: int) -> None:
    number = 0
    await committer.write(Write.INSERT_TASK, (key, "pending", _encoded(number), _now()))
    for step in range(STEPS):
        await committer.write(Write.INSERT_STEP, (key, step, "running", _encoded(number), _now()))
        number += 1
        await committer.write(Write.UPDATE_STEP, (key, step, "completed", _encoded(number), _now()))
    await committer.write(Write.UPDATE_TASK, (key, "processed", _encoded(number), _now()))


def _encoded(number: int) -> bytes:
    return b"%d" % number


def _now() -> int:
    """Whole microseconds since 1970."""
    return time.time_ns() // 1000
