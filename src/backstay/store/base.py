"""What a state store can do. Each verb is one transaction: it happens entirely or not at all.

One rule keeps the rest simple: **only the holder of a task's lock writes its steps.** A scheduler
gets the lock with ``claim`` and writes with ``apply``; everybody else changes a task through
``amend`` (which may take the lock away) or leaves a request for the holder. Every ``apply`` names
the instance epoch and the lock number it acts under and is refused when either moved.

supervision   what the store does for the supervisor: who leads, what nobody moves
records       what it keeps for operators: controls, alerts, the audit trail, tokens
queues        messages in queues (``messaging.queue``)
requests      what it carries between schedulers and agents in other processes
alerting      that alerts are raised once, and whom they were told
groups        how far the readers of streams have got, and what they set aside
jobs          job collections, their jobs, and what became of their occurrences
retention     what has outlived its time, and is forgotten
inspection    what it tells of itself, to whoever checks it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Protocol

import msgspec

from backstay.domain.alert import NewAlert
from backstay.domain.audit import Act
from backstay.domain.breaker import BreakerState
from backstay.domain.latency import Calls
from backstay.domain.lease import Owner
from backstay.domain.message import Lock, NewMessage
from backstay.domain.operate import Amendment
from backstay.domain.request import RequestStanding
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepRecord, UndoKind
from backstay.domain.task import NewTask, Signal, TaskRecord
from backstay.errors import BackstayError
from backstay.messaging.queue import Queues
from backstay.store.accepting import Accept
from backstay.store.alerting import Alerting
from backstay.store.groups import Groups
from backstay.store.inspection import Inspection
from backstay.store.jobs import Jobs
from backstay.store.records import Records
from backstay.store.requests import Mail, Requests
from backstay.store.retention import Retention
from backstay.store.supervision import Supervision


class Runnable(msgspec.Struct, frozen=True, order=True):
    """A workflow that a scheduler has the code of. A task runs under exactly its own version."""

    workflow: str
    version: int
    # How long a claimed run of it may take: the task's complete-by is set from this.
    complete_by: timedelta


class NewInstance(msgspec.Struct, frozen=True, kw_only=True):
    """A process that starts: a fresh id, and what it can run."""

    id: str
    host: str
    pid: int
    roles: tuple[str, ...] = ()
    runs: tuple[Runnable, ...] = ()


class BreakerTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The breaker of an agent came to another state by itself."""

    at: datetime
    state: BreakerState
    # How many failures had opened it, and what the last of them said.
    failures: int = 0
    error: str | None = None


class AgentReport(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent stands in one process."""

    in_flight: int
    waiting: int
    # How many may be in flight now, and at most if that follows a pace.
    concurrency: int | None
    breaker: BreakerState
    open_until: datetime | None
    # The following a process of an earlier release does not tell.
    concurrency_max: int | None = None
    calls: Calls = Calls()
    # The last of them, oldest first.
    breaker_turns: list[BreakerTurn] = []


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance tells of itself with a sign of life."""

    # Tasks in its hands.
    in_flight: int = 0
    agents: dict[str, AgentReport] = {}


class InstanceRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    epoch: int
    live: bool
    host: str
    pid: int
    roles: tuple[str, ...]
    runs: tuple[tuple[str, int], ...]
    report: Report
    started_at: datetime
    heartbeat_at: datetime


class Claimed(msgspec.Struct, frozen=True):
    """A task that is ours now, with what it recorded before."""

    task: TaskRecord
    steps: list[StepRecord]
    signals: list[Signal]
    # What an earlier holder asked of agents in other processes.
    requests: Sequence[RequestStanding] = ()


class Submitted(msgspec.Struct, frozen=True):
    """The answer to a submission: the task, and whether this very call created it."""

    task: TaskRecord
    created: bool


class StepBegan(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A step that runs for the first time, of which nothing is in the store.

    This and ``StepCompleted`` are the two moves that most steps make, in a form that can be written as it
    is: instants in whole microseconds since 1970, values as text of JSON. As lists, in this order.
    """

    state: ClassVar = StepState.RUNNING
    undo_attempt: ClassVar = 0

    task_key: int
    key: str
    agent: str
    operation: str
    complete_by: int
    input: str
    started_at: int
    undo: UndoKind | None
    pivot: bool


class StepCompleted(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A step that the store has as running, completed; nothing else of it changes."""

    state: ClassVar = StepState.COMPLETED
    undo_attempt: ClassVar = 0

    task_key: int
    key: str
    output: str
    ended_at: int
    position: int


#: A step in the form that it is left in: any, or one of the two that cost less.
StepMove = StepRecord | StepBegan | StepCompleted


class Transition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one turn of a run changed: whole rows, written together or not at all."""

    owner: Owner
    task_key: int
    lock_number: int
    # When the task, or what is entered along with it, was changed; steps have times of their own.
    at: datetime
    steps: Sequence[StepMove] = ()
    # Its ``request`` is the one that this row answers; any other that came meanwhile stays.
    task: TaskRecord | None = None
    children: Sequence[NewTask] = ()
    # Signals that a wait consumed: (number of the signal, key of the wait).
    consumed: Sequence[tuple[int, str]] = ()
    # Whom this turn calls a person for.
    alerts: Sequence[NewAlert] = ()
    # What is sent with it to queues that are there and have room; whoever has neither holds up nothing.
    messages: Sequence[NewMessage] = ()
    # Whether the task's submitter wants to be told: what this turn means to it is told with it.
    replies: bool = False
    # What it asks of agents in other processes.
    mail: Mail | None = None


class Standing(msgspec.Struct, frozen=True):
    """How a task in somebody's hands stands in the store."""

    task: TaskRecord
    signals: list[Signal]


class Changes(msgspec.Struct):
    """What a commit changed, for those in this process who wait for it."""

    settled: list[TaskRecord] = []
    touched: list[int] = []
    claimable: bool = False
    # A workflow or an agent is held back, or no longer.
    controls: bool = False
    # Agents in other processes are asked for something; some are to stop what they are doing.
    requests: bool = False
    withdrawn: bool = False
    # The tasks of which requests were answered.
    replied: list[int] = []
    # The ids of tasks that settled in another process.
    ended: list[str] = []
    # The names of queues in which there may be something to receive.
    queues: list[str] = []
    # Somebody joined or left a group, or a unit of one changed hands.
    ownership: bool = False
    # Jobs were written: another may be the next that is due.
    jobs: bool = False
    # Another process wrote: anything may have changed.
    foreign: bool = False


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks to list: newest first, below ``before`` (the key of the last one seen), above ``after``."""

    states: tuple[TaskState, ...] = ()
    workflow: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    attribute: tuple[str, str] | None = None
    before: int | None = None
    after: int = 0
    limit: int = 100


Settle = Callable[[BackstayError | None], None]
Posted = tuple[Transition, Settle]
Amend = Callable[[TaskRecord, list[StepRecord]], Amendment]
Listener = Callable[[Changes], None]


class Store(Protocol):
    """The state store. Times are passed in; one that many hosts share judges by its own clock who is late."""

    @property
    def ahead(self) -> timedelta:
        """How far the store's clock is ahead of this machine's, as last heard."""

    @property
    def supervision(self) -> Supervision: ...

    @property
    def records(self) -> Records: ...

    @property
    def queues(self) -> Queues: ...

    @property
    def requests(self) -> Requests: ...

    @property
    def groups(self) -> Groups: ...

    @property
    def jobs(self) -> Jobs: ...

    @property
    def retention(self) -> Retention: ...

    @property
    def inspection(self) -> Inspection: ...

    @property
    def alerting(self) -> Alerting: ...

    async def open(self, *, must_exist: bool = False) -> None:
        """Connect and bring the schema up to date. Raises StoreTooNew for a newer schema.

        With ``must_exist`` nothing is created: raises StoreUnavailable where there is no store yet.
        """

    async def close(self) -> None:
        """Write what was handed in, then let go of everything."""

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` after each commit that changed something; returns how to stop that."""

    # Instances

    async def register(self, instance: NewInstance, *, now: datetime) -> Owner:
        """Enter a process that starts; what it writes is fenced by the epoch it gets here."""

    async def beat(self, owner: Owner, *, now: datetime, report: Report | None = None) -> None:
        """A sign of life, and how the instance stands. Raises LeaseLost when it was declared dead."""

    async def retire(self, owner: Owner, *, now: datetime) -> int:
        """A graceful stop: free what the instance holds, blaming nobody; the number of tasks freed."""

    async def instances(self) -> list[InstanceRecord]: ...

    # The way in

    async def submit(self, tasks: Sequence[NewTask], *, now: datetime) -> list[Submitted | BackstayError]:
        """Record tasks. Known ids are answered one by one: the existing task, or IdConflict."""

    async def submit_within(self, connection: object, task: NewTask, *, now: datetime) -> Submitted:
        """Enter ``task`` in the transaction that the caller has open on its asynchronous ``connection``.

        It is there once the caller commits. A known id gives the existing task, or raises IdConflict;
        a connection that cannot be used raises InvalidRequest, and nothing is written.
        """

    def submit_in(self, connection: object, task: NewTask, *, now: datetime) -> Submitted:
        """The same on a synchronous connection, from any thread; it waits as that connection does."""

    async def accept(self, lock: Lock, function: Accept, *, now: datetime) -> Submitted:
        """Run ``function``, enter the task that it gives, and complete the message: all of it, or nothing.

        ``function`` gets a connection with an open transaction, through which it may write what it likes
        (an asyncpg one, or one of sqlite3). Raises FunctionRaised for whatever it raises; LockLost where
        the message is no longer ours, IdConflict where its task is another.
        """

    # The scheduler

    @property
    def claims_wait(self) -> bool:
        """Whether a claim can wait for something to claim; elsewhere ``patience`` has no meaning."""

    async def claim(
        self,
        owner: Owner,
        runs: Sequence[Runnable],
        *,
        limit: int,
        now: datetime,
        patience: timedelta = timedelta(0),
    ) -> list[Claimed]:
        """Lock up to ``limit`` claimable tasks for ``owner``, oldest first within each workflow.

        The tasks of a paused workflow are left alone, undos as well. Where there is nothing to claim, the
        answer is given by the commit that brings something, and empty-handed when ``patience`` is at its
        end. Raises LeaseLost when the instance was declared dead.
        """

    def apply(self, transition: Transition, settle: Settle) -> None:
        """Write a turn of a run with the next commit, then call ``settle``.

        ``settle(None)`` says that it is durable; ``settle(LeaseLost)`` that this one was refused,
        whatever became of the others in its batch. While the store cannot write, nothing is settled
        and the transition is tried again.
        """

    async def standing(self, keys: Sequence[int]) -> list[Standing]:
        """How tasks in our hands stand: requests, lost locks, signals that arrived."""

    # The operator

    async def amend(
        self, task_id: str, change: Amend, *, now: datetime, act: Act | None = None
    ) -> TaskRecord:
        """Read a task with its steps, let ``change`` decide, and write the outcome: one transaction.

        With ``act`` it is in the audit trail too.
        """

    async def signal(
        self,
        task_id: str,
        name: str,
        payload: bytes,
        *,
        dedup: str | None,
        now: datetime,
        act: Act | None = None,
    ) -> TaskRecord:
        """Buffer a signal (once per ``dedup`` key) and wake the task if it waits."""

    # Reading

    async def task(self, task_id: str) -> TaskRecord:
        """Raises UnknownTask."""

    async def outcomes(self, task_ids: Sequence[str]) -> dict[str, TaskRecord | None]:
        """Of each task that is there: its record once it has settled, ``None`` before that."""

    async def steps(self, task_id: str) -> list[StepRecord]:
        """The task's whole journal, in the order in which it was begun. Raises UnknownTask."""

    async def tasks(self, wanted: TaskFilter) -> list[TaskRecord]:
        """Newest first; inputs and outputs are left out."""

    async def backlog(self, *, at_most: int, workflow: str | None = None) -> int:
        """How many tasks (of one workflow) wait to be claimed, counted no further than ``at_most``."""
