"""Two stores on different databases, driven by the same operations and compared row by row."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import asyncpg

from backstay.domain.control import Control
from backstay.domain.instants import instant
from backstay.domain.lease import Leader, Owner
from backstay.domain.step import StepRecord
from backstay.domain.task import TaskRecord
from backstay.errors import BackstayError
from backstay.sql.queries import load_queries
from backstay.store.base import Claimed, InstanceRecord, Standing, Store, Submitted
from backstay.store.postgres import PostgresStore
from backstay.store.postgres.tables import SHAPE as POSTGRES_SHAPE
from backstay.store.postgres.url import address_of
from backstay.store.rows import Payloads, Row, Shape, value_of
from backstay.store.sqlite import SqliteStore
from backstay.store.sqlite.rows import SHAPE as SQLITE_SHAPE
from backstay.testing.promises.holder import Holder
from backstay.testing.records import replace

# Small, so that most values are claim checks.
INLINE_BYTES_MAX = 4

TABLES = ("task", "step", "signal", "payload", "instance", "control", "recovery")

Answer = TypeVar("Answer")

#: The small numbers of tasks in one store, and those by which both stores are compared.
Numbers = Mapping[int, int]


class Told(NamedTuple):
    """A signal, consumed or not, as it lies in its table."""

    name: str
    dedup: str | None
    payload: bytes | None
    consumed_by: str | None
    received_at: datetime


class Recovery(NamedTuple):
    """What one sweep recovered of a workflow, or of an agent in it."""

    at: datetime
    workflow: str
    agent: str | None
    number: int


class Rows(NamedTuple):
    """The rows of each table, and what the database keeps in a form of its own."""

    tables: dict[str, list[Row]]
    shape: Shape
    as_instant: Callable[[Any], datetime]


@dataclass
class Snapshot:
    """All that is in a store, as records."""

    tasks: dict[str, TaskRecord]
    steps: dict[tuple[int, str], StepRecord]
    signals: dict[tuple[int, int], Told]
    payloads: dict[tuple[int, str], bytes]
    instances: dict[str, InstanceRecord]
    controls: list[Control]
    recoveries: list[Recovery]

    def journal(self, task: TaskRecord) -> list[StepRecord]:
        return [step for (number, _), step in sorted(self.steps.items()) if number == task.key]

    def fresh_signals(self, task: TaskRecord) -> list[str]:
        return [
            one.name
            for (number, _), one in sorted(self.signals.items())
            if number == task.key and one.consumed_by is None
        ]


class Side(ABC):
    """One of the two: a store, who holds its tasks, and the numbers that its tasks have got there."""

    store: Store
    #: Under whom the sweeps are made.
    leader: Leader

    def __init__(self) -> None:
        self.holders: dict[str, Holder] = {}
        # Tasks as they were when they were claimed, by their ids and lock numbers.
        self.claimed: dict[tuple[str, int], TaskRecord] = {}
        self.numbers: Numbers = {}
        self._keys: dict[str, int] = {}

    def owner(self, name: str | None) -> Owner | None:
        return None if name is None else self.holders[name].owner

    def key_of(self, task_id: str) -> int:
        return self._keys[task_id]

    async def look(self) -> Snapshot:
        """Everything in the store."""
        rows = await self._rows()
        tasks = rows.tables["task"]
        self._keys = {row[1]: row[0] for row in tasks}
        # A sequence leaves gaps, so the keys themselves differ. Their order must not: it says who is older.
        self.numbers = {key: number for number, key in enumerate(sorted(self._keys.values()), start=1)}
        return _snapshot(rows, self.numbers)

    @abstractmethod
    async def _rows(self) -> Rows: ...


class SqliteSide(Side):
    def __init__(self, store: SqliteStore) -> None:
        super().__init__()
        self.store = store
        self._columns = _columns("backstay.store.sqlite")
        self._reader = sqlite3.connect(store.path)

    async def _rows(self) -> Rows:
        read = self._reader.execute
        tables = {name: read(f"SELECT {self._columns[name]} FROM {name}").fetchall() for name in TABLES}
        return Rows(tables, SQLITE_SHAPE, instant)

    async def close(self) -> None:
        self._reader.close()
        await self.store.close()


class PostgresSide(Side):
    def __init__(self, store: PostgresStore, reader: asyncpg.Connection, schema: str) -> None:
        super().__init__()
        self.store = store
        self._reader = reader
        self._schema = schema
        columns = _columns("backstay.store.postgres", schema=schema)
        # All of it in one round trip.
        rows = [f"ARRAY(SELECT ROW({columns[name]}) FROM {schema}.{name})" for name in TABLES]
        self._everything = f"SELECT {', '.join(rows)}"

    async def _rows(self) -> Rows:
        found = await self._reader.fetchrow(self._everything)
        return Rows(dict(zip(TABLES, found, strict=True)), POSTGRES_SHAPE, lambda stored: stored)

    async def empty(self) -> None:
        """As after the migrations, in a fraction of the time that those take."""
        tables = ", ".join(f"{self._schema}.{name}" for name in TABLES)
        await self._reader.execute(f"TRUNCATE {tables} RESTART IDENTITY")
        await self._reader.execute(f"UPDATE {self._schema}.leader SET holder = NULL, until = NULL, epoch = 0")
        self.holders.clear()
        self.claimed.clear()

    async def close(self) -> None:
        await self._reader.close()
        await self.store.close()


class Stage:
    """Where the twins live: one event loop, one schema that is emptied, and a new file each time."""

    def __init__(self, postgres_url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._folder = tempfile.TemporaryDirectory(prefix="backstay-model-")
        self._files = 0
        self._postgres = self.run(_opened(postgres_url))

    def run(self, deed: Coroutine[Any, Any, Answer]) -> Answer:
        return self._loop.run_until_complete(deed)

    def twins(self) -> Twins:
        """Two empty stores."""
        return self.run(self._empty_twins())

    async def _empty_twins(self) -> Twins:
        await self._postgres.empty()
        self._files += 1
        path = Path(self._folder.name) / f"model-{self._files}.db"
        store = SqliteStore(f"sqlite:///{path}", inline_bytes_max=INLINE_BYTES_MAX)
        await store.open()
        return Twins(SqliteSide(store), self._postgres)

    def close(self) -> None:
        self.run(self._postgres.close())
        self.run(self._loop.shutdown_default_executor())
        self._loop.close()
        self._folder.cleanup()


async def _opened(url: str) -> PostgresSide:
    # Nobody pulls a plug here, and a thousand commits need not wait for the disk.
    store = PostgresStore(
        f"{url}&synchronous_commit=off",
        inline_bytes_max=INLINE_BYTES_MAX,
        accept_data_loss=True,
        server_clock=False,
    )
    await store.open()
    address = address_of(url)
    return PostgresSide(store, await asyncpg.connect(address.dsn), address.schema)


class Twins:
    """What is done to one is done to the other; they answer the same, and then hold the same."""

    def __init__(self, sqlite: SqliteSide, postgres: PostgresSide) -> None:
        self._sqlite = sqlite
        self._sides: tuple[Side, Side] = (sqlite, postgres)
        #: What both of them hold.
        self.seen = Snapshot({}, {}, {}, {}, {}, [], [])

    async def do(self, deed: Callable[[Side], Awaitable[Any]]) -> Any:
        """What both of them answer: a value, or an error of ours."""
        answers = await asyncio.gather(*(deed(side) for side in self._sides), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, BackstayError):
                raise answer
        await self._look()
        first, second = (
            _comparable(answer, side.numbers) for answer, side in zip(answers, self._sides, strict=True)
        )
        assert first == second, "SQLite answers (left) and PostgreSQL answers (right)"
        return answers[0]

    async def _look(self) -> None:
        first, second = await asyncio.gather(*(side.look() for side in self._sides))
        assert first == second, "SQLite holds (left) and PostgreSQL holds (right)"
        self.seen = first

    async def close(self) -> None:
        await self._sqlite.close()


# How rows and answers of two databases become comparable


def _columns(package: str, **fragments: str) -> dict[str, str]:
    """What is read of each table."""
    queries = load_queries(package, **fragments)
    return {
        "task": queries["task_columns"],
        "step": queries["step_columns"],
        "signal": "task_key, number, name, payload, dedup, consumed_by, received_at",
        "payload": "task_key, digest, body",
        "instance": queries["instance_columns"],
        "control": queries["control_columns"],
        "recovery": "at, workflow, agent, number",
    }


def _snapshot(rows: Rows, numbers: Numbers) -> Snapshot:
    tables, shape, as_instant = rows
    payloads: Payloads = {(row[0], row[1]): row[2] for row in tables["payload"]}
    tasks = [shape.task_record(row, payloads) for row in tables["task"]]
    steps = [shape.step_record(row, payloads) for row in tables["step"]]
    instances = [shape.instance_record(row) for row in tables["instance"]]
    return Snapshot(
        tasks={task.id: _renumbered_task(task, numbers) for task in tasks},
        steps={(numbers[step.task_key], step.key): _renumbered_step(step, numbers) for step in steps},
        signals={
            (numbers[key], number): Told(
                name, dedup, value_of(key, payload, payloads), consumed_by, as_instant(received_at)
            )
            for key, number, name, payload, dedup, consumed_by, received_at in tables["signal"]
        },
        payloads={(numbers[key], digest): body for (key, digest), body in payloads.items()},
        instances={one.id: one for one in instances},
        controls=sorted((shape.control(row) for row in tables["control"]), key=lambda one: one.name),
        # Those of one sweep have no order.
        recoveries=sorted(
            (Recovery(as_instant(at), *rest) for at, *rest in tables["recovery"]),
            key=lambda one: (one.at, one.workflow, one.agent or "", one.number),
        ),
    )


def _renumbered_task(task: TaskRecord, numbers: Numbers) -> TaskRecord:
    parent = None if task.parent_key is None else numbers[task.parent_key]
    return replace(task, key=numbers[task.key], parent_key=parent)


def _renumbered_step(step: StepRecord, numbers: Numbers) -> StepRecord:
    return replace(step, task_key=numbers[step.task_key])


def _comparable(answer: Any, numbers: Numbers) -> Any:
    """An answer without what may differ between databases: the keys, and the words of a refusal."""
    match answer:
        case BackstayError():
            return type(answer)
        case TaskRecord():
            return _renumbered_task(answer, numbers)
        case StepRecord():
            return _renumbered_step(answer, numbers)
        case Submitted(task=task, created=created):
            return _renumbered_task(task, numbers), created
        case Standing(task=task, signals=signals):
            return _renumbered_task(task, numbers), signals
        case Claimed(task=task, steps=steps, signals=signals):
            journal = {step.key: _renumbered_step(step, numbers) for step in steps}
            return _renumbered_task(task, numbers), journal, signals
        case list():
            return [_comparable(one, numbers) for one in answer]
        case _:
            return answer
