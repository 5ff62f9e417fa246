"""What is done to the tables through one connection, by the verbs and by the group commit alike."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final

import msgspec

from backstay.domain.lease import Owner
from backstay.domain.step import StepRecord, in_order_of_beginning
from backstay.domain.task import NewTask, Signal, TaskRecord
from backstay.errors import LeaseLost, UnknownTask
from backstay.store.sqlite.rows import (
    Payloads,
    Row,
    step_record,
    step_row,
    task_record,
    task_row,
    to_micros,
)

# Rows per statement. The largest keeps below the 32,766 parameters that SQLite allows.
CHUNKS: Final = (512, 64, 8, 1)

_decode_locks: Final = msgspec.json.Decoder(list[tuple[int, str | None, int]]).decode


class Tables:
    """One connection with its named queries and its claim checks."""

    def __init__(
        self, connection: sqlite3.Connection, queries: Mapping[str, str], *, inline_bytes_max: int
    ) -> None:
        self.connection = connection
        self._queries = queries
        self._inline_bytes_max = inline_bytes_max
        self._chunk_sqls: dict[tuple[str, int], str] = {}
        self._payloads = Payloads(inline_bytes_max, load=self._load_payload, save=self._save_payload)

    def run(self, query: str, **values: Any) -> sqlite3.Cursor:
        return self.connection.execute(self._queries[query], values)

    def run_many(self, query: str, rows: Iterable[Row]) -> None:
        self.connection.executemany(self._queries[query], rows)

    def run_rows(self, query: str, rows: Sequence[Row]) -> None:
        """Run a query whose ``{rows}`` stands for many rows, as few times as possible.

        ``executemany`` gives up the interpreter lock and begs for it back once per row; beside a
        busy event loop that is what a row costs. Chunks of a few sizes keep the statements cached.
        """
        done = 0
        for size in CHUNKS:
            while len(rows) - done >= size:
                chunk = rows[done : done + size]
                self.connection.execute(self._chunk_sql(query, size, len(chunk[0])), [*chain(*chunk)])
                done += size

    def _chunk_sql(self, query: str, size: int, width: int) -> str:
        known = self._chunk_sqls.get((query, size))
        if known is None:
            row = f"({', '.join('?' * width)})"
            known = self._queries[query].replace("{rows}", ", ".join([row] * size))
            self._chunk_sqls[query, size] = known
        return known

    # Tasks

    def insert_task(self, new: NewTask, now: datetime) -> int | None:
        """The key of the new task, or ``None`` when its id is taken."""
        inline = len(new.input) <= self._inline_bytes_max
        row = self.run(
            "insert_task",
            id=new.id,
            workflow=new.workflow,
            version=new.version,
            input=new.input if inline else b"",
            hard_end=to_micros(new.hard_end),
            reply_to=new.reply_to,
            attributes=as_json(new.attributes),
            parent_key=new.parent_key,
            parent_step=new.parent_step,
            now=to_micros(now),
        ).fetchone()
        if row is None:
            return None
        key: int = row[0]
        if not inline:
            # A claim check is filed under the task's key, which exists only now.
            self.run("put_input", input=self._payloads.check_in(key, new.input), key=key)
        if new.plan:
            self.put_steps(msgspec.structs.replace(step, task_key=key) for step in new.plan)
        return key

    def task(self, task_id: str) -> TaskRecord:
        row = self.run("task_by_id", id=task_id).fetchone()
        if row is None:
            raise UnknownTask(task_id)
        return task_record(row, self._payloads)

    def task_records(self, rows: Iterable[Row]) -> list[TaskRecord]:
        return [task_record(row, self._payloads) for row in rows]

    def put_tasks(self, tasks: Iterable[TaskRecord]) -> None:
        self.run_rows("put_task", [task_row(task, self._payloads) for task in tasks])

    def wake(self, keys: Sequence[int], now: datetime) -> None:
        """Make parked tasks claimable: somebody called them."""
        if keys:
            self.run("wake_tasks", keys=as_json(keys), now=to_micros(now))

    def unpark_called(self, keys: Sequence[int], now: datetime) -> None:
        """Make parked tasks claimable that were called: by a request, a child, a signal they wait for."""
        if keys:
            self.run("unpark_called", keys=as_json(keys), now=to_micros(now))

    def obey_requests(self, keys: Sequence[int], now: datetime) -> None:
        """Make tasks claimable that stopped in error although somebody had asked for something else."""
        if keys:
            self.run("obey_requests", keys=as_json(keys), now=to_micros(now))

    # Steps and signals

    def put_steps(self, steps: Iterable[StepRecord]) -> None:
        self.run_rows("put_step", [step_row(step, self._payloads) for step in steps])

    def steps(self, keys: Sequence[int]) -> dict[int, list[StepRecord]]:
        found: dict[int, list[StepRecord]] = defaultdict(list)
        for row in self.run("steps_of", keys=as_json(keys)):
            found[row[0]].append(step_record(row, self._payloads))
        return found

    def journal(self, key: int) -> list[StepRecord]:
        return in_order_of_beginning(self.steps([key])[key])

    def signals(self, keys: Sequence[int]) -> dict[int, list[Signal]]:
        """What was told to tasks and not consumed yet, oldest first."""
        found: dict[int, list[Signal]] = defaultdict(list)
        for task_key, number, name, payload in self.run("fresh_signals", keys=as_json(keys)):
            body = self._payloads.check_out(task_key, payload)
            found[task_key].append(Signal(number=number, name=name, payload=body or b"null"))
        return found

    def check_in(self, task_key: int, value: bytes) -> bytes | None:
        return self._payloads.check_in(task_key, value)

    # Fences

    def epochs(self, ids: Sequence[str]) -> dict[str, int]:
        """The current epochs of the instances that live."""
        return dict(self.run("instance_epochs", ids=as_json(ids)).fetchall())

    def locks(self, keys: Sequence[int]) -> dict[int, tuple[str | None, int]]:
        [rows] = self.run("lock_numbers", keys=as_json(keys)).fetchone()
        return {key: (locked_by, number) for key, locked_by, number in _decode_locks(rows)}

    def check_epoch(self, owner: Owner) -> None:
        if self.epochs([owner.id]).get(owner.id) != owner.epoch:
            raise LeaseLost("this instance", owner.id)

    # Underneath

    def _load_payload(self, task_key: int, digest: str) -> bytes:
        row: Row = self.connection.execute(self._queries["payload_of"], (task_key, digest)).fetchone()
        body: bytes = row[0]
        return body

    def _save_payload(self, task_key: int, digest: str, body: bytes) -> None:
        self.connection.execute(self._queries["put_payload"], (task_key, digest, body))


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
