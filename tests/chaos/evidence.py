"""What is known after a run: what the store holds, how that came to be, and what only the test knows.

The first two are read out of the database. The third comes from outside of every process: what bodies wrote
down when they began and ended, what was acknowledged to whom, what was planned and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any, Final, Literal, NamedTuple

from backstay.store.checking import Fault, check_store
from tests.chaos.history import Change, apart, history_of
from tests.support.databases import Database
from tests.support.delivery_app import AGENTS, CONCURRENCY, Services

#: So many rows of each table are looked at.
ROWS_MAX: Final = 500_000


class Task(NamedTuple):
    key: int
    id: str
    state: str
    locked_by: str | None
    wake_at: int | None
    parked: bool
    parent_key: int | None
    claim_checks: int


class Step(NamedTuple):
    task_id: str
    key: str
    kind: str
    state: str
    attempt: int
    complete_by: int | None
    ended_at: int | None
    position: int | None
    undo: str | None
    unsure: bool


class Body(NamedTuple):
    """A line in the book of a service: a body began, had its effect, or was left, however that came."""

    what: Literal["began", "done", "left"]
    key: str
    attempt: int
    agent: str
    pid: int
    #: In microseconds since 1970.
    at: int


class Place(NamedTuple):
    """Where an event is in a stream, and what it says."""

    partition: int
    offset: int
    body: Any


@dataclass
class Facts:
    """What only the test knows. What it does not say is not looked at."""

    #: In the order in which they were written, one list for all processes.
    bodies: list[Body] = field(default_factory=list)
    #: How many bodies of an agent may be at work at once in a process.
    caps: dict[str, int] = field(default_factory=dict)
    #: What was acknowledged as appended, and what is in the log.
    appended: list[Place] = field(default_factory=list)
    readable: list[Place] = field(default_factory=list)
    #: When each event was processed, by stream, group and partition, and by offset.
    handled: dict[str, dict[int, int]] = field(default_factory=dict)
    #: The first offset that is still there, by stream and partition.
    first_kept: dict[str, int] = field(default_factory=dict)
    #: Of each request of a job: which job, which instant, under which key.
    fired: list[tuple[str, str, str]] = field(default_factory=list)
    #: Ids that were handed in inside a transaction that was rolled back.
    rolled_back: set[str] = field(default_factory=set)
    #: What was planned by a seed, by the same seed again, and by another.
    plans: list[tuple[Any, Any, Any]] = field(default_factory=list)
    #: How each task must have ended, by the rules alone: the store was not asked.
    model: dict[str, str] = field(default_factory=dict)
    #: How far the clock of the machine was set ahead meanwhile: bodies measure their time on a monotonic one.
    set_ahead_micros: int = 0
    #: Whether what has ended may be gone by now: then its history tells how it ended.
    forgetful: bool = False
    #: Tasks that stay open, since that is what the row is about.
    open: set[str] = field(default_factory=set)
    #: What invariants had to say while it lasted, by their numbers.
    seen: dict[int, list[str | None]] = field(default_factory=dict)
    #: How long it took until all was well again, and how long it may take, in seconds.
    healed: list[tuple[float, float]] = field(default_factory=list)

    def of_services(self, services: Services) -> None:
        """Take the book of the delivery company's services."""
        kinds: dict[str, Literal["began", "done", "left"]] = {"asked": "began"}
        self.caps |= CONCURRENCY
        self.bodies += [
            Body(
                kinds.get(one.what, one.what),  # type: ignore[arg-type]
                one.key,
                one.attempt,
                AGENTS[one.operation],
                one.pid,
                micros(one.at) or 0,
            )
            for one in services.book()
        ]

    def planned(self, plan: Callable[[Random], Any], seed: int) -> Any:
        """What ``plan`` makes of the seed; that it makes the same of it again is a fact to look at."""
        made = plan(Random(seed))
        self.plans.append((made, plan(Random(seed)), plan(Random(seed + 1))))
        return made


@dataclass(frozen=True)
class Evidence:
    tasks: list[Task]
    steps: list[Step]
    #: Whether an instance lives, by its id.
    instances: Mapping[str, bool]
    #: Of each request to an agent that somebody works on: which, and who.
    at_work: list[tuple[str, str]]
    #: Ids of messages.
    messages: set[str]
    payloads: Mapping[int, int]
    checkpoints: Mapping[str, int]
    changes: list[Change]
    facts: Facts


_TASKS = f"""
    SELECT key, id, state, locked_by, wake_at, parked, parent_key,
           (CASE WHEN substr(input, 1, 1) = {{at}} THEN 1 ELSE 0 END)
      FROM task ORDER BY key LIMIT {ROWS_MAX}
"""
_STEPS = f"""
    SELECT task.id, step.key, step.kind, step.state, step.attempt, step.complete_by, step.ended_at,
           step.position, step."undo", step.unsure
      FROM step JOIN task ON task.key = step.task_key ORDER BY step.task_key, step.key LIMIT {ROWS_MAX}
"""
_AT_WORK = f"""
    SELECT step, claimed_by FROM agent_request
     WHERE claimed_by IS NOT NULL AND reply IS NULL AND broken_off IS NULL LIMIT {ROWS_MAX}
"""
_CHECKPOINTS = "SELECT stream, partition, min(checkpoint) FROM checkpoint GROUP BY stream, partition"


def evidence_of(database: Database, facts: Facts, *, with_history: bool = True) -> Evidence:
    """Read what there is to read, after the last process has ended."""
    at = "'\\x40'::bytea" if "postgres" in database.url else "x'40'"
    rows = database.rows
    return Evidence(
        tasks=[_timed(Task, row) for row in rows(_TASKS.format(at=at))],
        steps=[_timed(Step, row) for row in rows(_STEPS)],
        instances={one: bool(live) for one, live in rows("SELECT id, live FROM instance")},
        at_work=[(step, by) for step, by in rows(_AT_WORK)],
        messages={one for (one,) in rows(f"SELECT id FROM message LIMIT {ROWS_MAX}")},
        payloads=dict(rows("SELECT task_key, count(*) FROM payload GROUP BY task_key")),
        checkpoints={f"{stream}/{partition}": at for stream, partition, at in rows(_CHECKPOINTS) if at},
        changes=history_of(database) if with_history else [],
        facts=facts,
    )


def faults_of(database: Database) -> list[Fault]:
    """What ``backstay store check`` finds, which knows nothing of this run."""
    return apart(_faults_of(database))


async def _faults_of(database: Database) -> list[Fault]:
    store = database.store()
    await store.open()
    try:
        return await check_store(store)
    finally:
        await store.close()


def _timed(kind: Any, row: Iterable[Any]) -> Any:
    return kind(*(micros(value) if isinstance(value, datetime) else value for value in row))


def micros(at: datetime | int | None) -> int | None:
    """An instant as each database gives it, in microseconds."""
    return round(at.timestamp() * 1_000_000) if isinstance(at, datetime) else at
