"""What is done to the tables through one connection, by the verbs and by the group commit alike."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

import msgspec

from backstay.domain.alert import NewAlert
from backstay.domain.audit import Act
from backstay.domain.control import Control, Subject
from backstay.domain.instants import micros
from backstay.domain.lease import Leader, Owner
from backstay.domain.request import BrokenOff, Reference, RequestStanding
from backstay.domain.step import StepRecord, in_order_of_beginning
from backstay.domain.task import NewTask, Signal, TaskRecord, first_record
from backstay.errors import BackstayError, LeaseLost, UnknownTask
from backstay.sql.sqlite.chunks import Chunks
from backstay.store.base import Changes, Claimed, Submitted
from backstay.store.decisions import known_task
from backstay.store.fullness import Fullness
from backstay.store.rows import (
    SIGNAL_VALUES,
    STEP_VALUES,
    TASK_VALUES,
    Facts,
    Outgoing,
    Payloads,
    Row,
    as_json,
    claimed_values,
    signal_of,
)
from backstay.store.sqlite.document import Document, Entering
from backstay.store.sqlite.rows import SHAPE

# Where a row of claimed_tasks says what else there is to read.
_HAS_STEPS: Final = -2
_HAS_SIGNALS: Final = -1

_decode_tasks: Final = msgspec.json.Decoder(list[list[Any]]).decode
_decode_locks: Final = msgspec.json.Decoder(list[tuple[int, str | None, int]]).decode


def prepare(connection: sqlite3.Connection, queries: Mapping[str, str]) -> None:
    """What a connection needs to write batches. It is the connection's own: nothing of it is in the file."""
    connection.execute(queries["claimed_table"])
    connection.execute(queries["batch_view"])
    connection.execute(queries["batch_trigger"])


class Tables:
    """One connection with its named queries and its claim checks."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        queries: Mapping[str, str],
        *,
        inline_bytes_max: int,
        fullness: Fullness | None = None,
    ) -> None:
        self.connection = connection
        self.fullness = fullness or Fullness()
        self._queries = queries
        self._inline_bytes_max = inline_bytes_max
        self._chunks = Chunks(connection, queries)

    def run(self, query: str, **values: Any) -> sqlite3.Cursor:
        return self.connection.execute(self._queries[query], values)

    def run_many(self, query: str, rows: Iterable[Row]) -> None:
        self.connection.executemany(self._queries[query], rows)

    def run_rows(self, query: str, rows: Sequence[Row]) -> int:
        """Run a query whose ``{rows}`` stands for many rows; how many it changed."""
        return self._chunks.run(query, rows)

    @contextmanager
    def savepoint(self, name: str) -> Iterator[None]:
        """All of the body, or nothing of it: what it raises undoes it alone."""
        self.connection.execute(f"SAVEPOINT {name}")
        try:
            yield
        except BaseException:
            self.connection.execute(f"ROLLBACK TO {name}")
            self.connection.execute(f"RELEASE {name}")
            raise
        self.connection.execute(f"RELEASE {name}")

    # Batches

    def document(self) -> Document:
        return Document(self._inline_bytes_max)

    def write(self, document: Document) -> None:
        """All of it as one statement, or nothing."""
        # Of a single row, this gives up the interpreter lock once less than ``execute``, which also looks for
        # the key of the row that was inserted last.
        self.connection.executemany(self._queries["write_batch"], (document.values,))
        if document.payloads:
            self.run_many("put_payload", document.payloads)

    # Tasks

    def enter(self, new: NewTask, now: datetime) -> Submitted | BackstayError:
        """Enter a new task, or answer for the one that has its id."""
        key = self.insert_task(new, now)
        if key is not None:
            return Submitted(first_record(key, new, now), created=True)
        return known_task(new, self.task(new.id))

    def entered(self, entering: Entering) -> list[Submitted]:
        """The records of tasks that were just entered together: their keys follow one another."""
        if not entering:
            return []
        [first] = self.run("key_of", id=entering[0][0].id).fetchone()
        return [
            Submitted(first_record(key, new, now), created=True)
            for key, (new, now) in enumerate(entering, start=first)
        ]

    def insert_task(self, new: NewTask, now: datetime) -> int | None:
        """The key of the new task, or ``None`` when its id is taken."""
        outgoing = self._outgoing()
        values = SHAPE.new_task_row(new, now, outgoing)
        row = self.connection.execute(self._queries["insert_task"], values).fetchone()
        if row is None:
            return None
        key: int = row[0]
        self.put_belongings([(key, new)])
        return key

    def put_belongings(self, entered: Iterable[tuple[int, NewTask]]) -> None:
        """What new tasks have beside their rows: large inputs, and the steps of their plans."""
        outgoing = self._outgoing()
        planned: list[StepRecord] = []
        for key, new in entered:
            outgoing.entered(key, new)
            if new.plan:
                planned += [msgspec.structs.replace(step, task_key=key) for step in new.plan]
        self._put_payloads(outgoing)
        if planned:
            self.put_steps(planned)

    def claimed(self, owner: Owner) -> list[Claimed]:
        """What the last batch that was written claimed for ``owner``. Raises LeaseLost if that is dead."""
        [found] = self.run("claimed_tasks", owner=owner.id).fetchone()
        rows: list[Row] = [*map(_with_bytes, _decode_tasks(found))]
        if not rows:
            self.check_epoch(owner)
            return []
        steps = self.steps([row[0] for row in rows if row[_HAS_STEPS]])
        signals = self.signals([row[0] for row in rows if row[_HAS_SIGNALS]])
        requests = self.requests_of([*steps])
        return [
            Claimed(task, steps.get(task.key, []), signals.get(task.key, []), requests.get(task.key, ()))
            for task in self.task_records(rows)
        ]

    def task(self, task_id: str) -> TaskRecord:
        found = self.tasks_by_id([task_id])
        if not found:
            raise UnknownTask(task_id)
        return found[0]

    def tasks_by_id(self, ids: Sequence[str]) -> list[TaskRecord]:
        return self.task_records(self.run("tasks_by_id", ids=as_json(ids)).fetchall())

    def task_records(self, rows: list[Row]) -> list[TaskRecord]:
        payloads = self._payloads(rows, TASK_VALUES)
        return [SHAPE.task_record(row, payloads) for row in rows]

    def put_tasks(self, tasks: Iterable[TaskRecord]) -> None:
        document = self.document()
        document.put(tasks)
        self.write(document)

    def wake(self, keys: Sequence[int], now: datetime) -> None:
        """Make parked tasks claimable: somebody called them."""
        if keys:
            self.run("wake_tasks", keys=as_json(keys), now=micros(now))

    def unpark_called(self, keys: Sequence[int], now: datetime) -> None:
        """Make parked tasks claimable that were called: by a request, a child, a signal they wait for."""
        if keys:
            self.run("unpark_called", keys=as_json(keys), now=micros(now))

    def obey_requests(self, keys: Sequence[int], now: datetime) -> None:
        """Make tasks claimable that stopped in error although somebody had asked for something else."""
        if keys:
            self.run("obey_requests", keys=as_json(keys), now=micros(now))

    # Steps and signals

    def put_steps(self, steps: Iterable[StepRecord]) -> None:
        outgoing = self._outgoing()
        self.run_rows("put_step", [SHAPE.step_row(step, outgoing) for step in steps])
        self._put_payloads(outgoing)

    def steps(self, keys: Sequence[int]) -> dict[int, list[StepRecord]]:
        if not keys:
            return {}
        rows = self.run("steps_of", keys=as_json(keys)).fetchall()
        payloads = self._payloads(rows, STEP_VALUES)
        found: dict[int, list[StepRecord]] = defaultdict(list)
        for row in rows:
            found[row[0]].append(SHAPE.step_record(row, payloads))
        return found

    def journal(self, key: int) -> list[StepRecord]:
        return in_order_of_beginning(self.steps([key])[key])

    def insert_signal(
        self, task_key: int, name: str, payload: bytes, *, dedup: str | None, now: datetime
    ) -> None:
        outgoing = self._outgoing()
        stored = outgoing.value(task_key, payload)
        self.run("insert_signal", task_key=task_key, name=name, dedup=dedup, payload=stored, now=micros(now))
        self._put_payloads(outgoing)

    def signals(self, keys: Sequence[int]) -> dict[int, list[Signal]]:
        """What was told to tasks and not consumed yet, oldest first."""
        if not keys:
            return {}
        rows = self.run("fresh_signals", keys=as_json(keys)).fetchall()
        payloads = self._payloads(rows, SIGNAL_VALUES)
        found: dict[int, list[Signal]] = defaultdict(list)
        for row in rows:
            found[row[0]].append(signal_of(row, payloads))
        return found

    # Requests to agents in other processes

    def requests(self, query: str, **values: Any) -> list[RequestStanding]:
        return [SHAPE.request_standing(row) for row in self.run(query, **values)]

    def request(self, reference: Reference) -> RequestStanding | None:
        found = self.requests("request_at", **msgspec.structs.asdict(reference))
        return found[0] if found else None

    def requests_of(self, keys: Sequence[int]) -> dict[int, list[RequestStanding]]:
        found: dict[int, list[RequestStanding]] = defaultdict(list)
        if keys:
            for one in self.requests("requests_of", keys=as_json(keys)):
                found[one.reference.task_key].append(one)
        return found

    def break_off(self, id: str, how: BrokenOff, changes: Changes) -> list[Row]:
        """The host ``id`` has ended: of each request that it left, the task, its workflow and the agent."""
        stopped = self.run("remove_withdrawn", id=id).fetchall()
        rows = self.run("break_off_requests", id=id, how=how).fetchall()
        changes.replied += [row[0] for row in (*stopped, *rows)]
        return rows

    # Instances and the lead

    def end_instance(self, owner: Owner, *, now: datetime, crashes: int) -> list[Row]:
        """End an instance and free its tasks: of each its workflow, and the state that it is left in.

        Nothing when its epoch is no longer current.
        """
        if self.run("end_instance", id=owner.id, epoch=owner.epoch).rowcount == 0:
            return []
        return self.run("free_tasks", id=owner.id, crashes=crashes, now=micros(now)).fetchall()

    def leader(self) -> Leader:
        return SHAPE.leader(self.run("leader").fetchone())

    # What is kept for operators

    def put_alerts(self, alerts: Iterable[tuple[NewAlert, datetime]]) -> None:
        self.run_many("insert_alert", [SHAPE.alert_row(alert, at) for alert, at in alerts])

    def record(self, act: Act, at: datetime, *, before: Facts, after: Facts) -> None:
        """A line in the audit trail."""
        self.run("insert_entry", **SHAPE.entry_values(act, at, before=before, after=after))

    def take_up(self, act: Act, at: datetime) -> None:
        """The open alerts that tell of what is acted on."""
        self.run("take_up", target=act.target, step=act.step, by=act.who, now=micros(at))

    def control(self, subject: Subject, name: str) -> Control | None:
        row = self.run("control_of", subject=subject, name=name).fetchone()
        return None if row is None else SHAPE.control(row)

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

    def _outgoing(self) -> Outgoing:
        return Outgoing(self._inline_bytes_max)

    def _put_payloads(self, outgoing: Outgoing) -> None:
        if outgoing.payloads:
            self.run_many("put_payload", outgoing.payloads)

    def _payloads(self, rows: Iterable[Row], places: tuple[int, ...]) -> Payloads:
        wanted = claimed_values(rows, places)
        if not wanted:
            return {}
        found = self.run("payloads_of", wanted=as_json(wanted)).fetchall()
        return {(task_key, digest): body for task_key, digest, body in found}


def _with_bytes(row: list[Any]) -> list[Any]:
    """A row that came as JSON: what is kept as bytes had to travel as text."""
    for place in TASK_VALUES:
        if row[place] is not None:
            row[place] = row[place].encode()
    return row
