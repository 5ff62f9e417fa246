"""What people and programs outside see: the same shape in Python, JSON and HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from backstay.domain.access import Role, Token
from backstay.domain.latency import Calls
from backstay.domain.lease import Leader
from backstay.domain.legal import Legal
from backstay.domain.step import Failure, StepRecord
from backstay.domain.task import TaskRecord
from backstay.domain.why import Reason
from backstay.store.base import BreakerTurn
from backstay.store.supervision import Round

Item = TypeVar("Item")


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """Part of a list, and where the next part begins: ``None`` at the end."""

    items: list[Item]
    next: str | None = None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task, with its values decoded. In a listing they are UNSET, and absent from the JSON."""

    id: str
    workflow: str
    version: int
    state: str
    input: Any = msgspec.UNSET
    output: Any = msgspec.UNSET
    error: Failure | None
    complete_by: datetime | None
    hard_end: datetime | None
    locked_by: str | None
    failure_count: int
    attributes: dict[str, str]
    created_at: datetime
    updated_at: datetime


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a task, with its values decoded."""

    key: str
    agent: str | None
    operation: str
    state: str
    attempt: int
    failure_count: int
    complete_by: datetime | None
    input: Any
    output: Any
    error: Failure | None
    started_at: datetime | None
    ended_at: datetime | None


class Search(msgspec.Struct, frozen=True):
    """What a search found, and where to go on; if it was cut, it looked no further back than that."""

    items: list[Task]
    next: str | None = None
    is_cut: bool = False


class Insight(msgspec.Struct, frozen=True, kw_only=True):
    """All that there is to see of a task, as of one look."""

    record: TaskRecord
    task: Task
    # The whole journal, in the order in which it was begun.
    steps: list[StepRecord]
    reason: Reason
    moves: list[Legal]


class CallsView(msgspec.Struct, frozen=True, kw_only=True):
    """How the calls of the last half minute, or whole one, ended: each try of a step or an undo is one."""

    number: int = 0
    # Of these, how many did not do what they were asked; a refusal for good is no failure.
    failed: int = 0
    # Half of them took no longer than that, and 95 or 99 of a hundred; null when there were none.
    p50_seconds: float | None = None
    p95_seconds: float | None = None
    p99_seconds: float | None = None


class AgentInstance(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent stands in one live process."""

    id: str
    in_flight: int
    waiting: int
    # How many steps may run at once now, and at most; null: as many as there are.
    concurrency: int | None
    concurrency_max: int | None
    breaker: str
    open_until: datetime | None
    calls: CallsView = CallsView()
    # How its breaker opened and closed by itself: the last times, oldest first.
    breaker_turns: list[BreakerTurn] = []


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent over all live processes."""

    name: str
    paused: bool
    # What a person, or the supervisor, holds in place: "open", "closed", or null.
    forced_breaker: str | None
    held_by: str | None
    reason: str | None
    instances: list[AgentInstance]
    # In all processes together.
    calls: CallsView = CallsView()


class WorkflowView(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow that some live process runs, or that is held back."""

    name: str
    versions: list[int]
    paused: bool
    held_by: str | None
    reason: str | None
    instances: list[str]


class RoundView(msgspec.Struct, frozen=True, kw_only=True):
    """What one round of the supervisor did."""

    at: datetime
    # Tasks taken from who did not move them, to be taken up again; the undos among them; what was held
    # back, with an alert, for having been recovered too often.
    recovered: int
    undone: int
    errors: int
    woken: int


class SupervisorView(msgspec.Struct, frozen=True, kw_only=True):
    """Who supervises, and what came of it last."""

    leader: str | None
    epoch: int
    lease_until: datetime | None
    last_round: RoundView | None


class SupervisorRun(SupervisorView, frozen=True, kw_only=True):
    """The same after a round that was asked for, and whether it was made here."""

    ran: bool


class CreatedToken(msgspec.Struct, frozen=True):
    """A token with its secret, which is told this once."""

    token: str
    name: str
    role: Role


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without its secret."""

    name: str
    role: Role
    created_at: datetime
    revoked_at: datetime | None


class UndoPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo of a task would do, in this order, if it began now."""

    task_id: str
    state: str
    steps: list[PlannedUndo]


class PlannedUndo(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    agent: str | None
    outcome: str
    # By a person, who then says complete-step.
    manual: bool


def calls_view(calls: Calls) -> CallsView:
    return CallsView(
        number=calls.number,
        failed=calls.failed,
        p50_seconds=calls.within(0.5),
        p95_seconds=calls.within(0.95),
        p99_seconds=calls.within(0.99),
    )


def supervisor_view(leader: Leader, rounds: list[Round]) -> SupervisorView:
    last = rounds[0] if rounds else None
    return SupervisorView(
        leader=leader.holder,
        epoch=leader.epoch,
        lease_until=leader.until,
        last_round=None if last is None else round_view(last),
    )


def round_view(one: Round) -> RoundView:
    return RoundView(at=one.at, recovered=one.recovered, undone=one.undos, errors=one.paused, woken=one.woken)


def supervisor_run(view: SupervisorView, *, ran: bool) -> SupervisorRun:
    return SupervisorRun(ran=ran, **msgspec.structs.asdict(view))


def token_view(token: Token) -> TokenView:
    return TokenView(
        name=token.name, role=token.role, created_at=token.created_at, revoked_at=token.revoked_at
    )


def listed_view(task: TaskRecord) -> Task:
    return Task(
        id=task.id,
        workflow=task.workflow,
        version=task.version,
        state=task.state,
        error=task.error,
        complete_by=task.complete_by,
        hard_end=task.hard_end,
        locked_by=task.locked_by,
        failure_count=task.failure_count,
        attributes=task.attributes,
        created_at=task.created_at,
        updated_at=task.updated_at,
    )


def task_view(task: TaskRecord) -> Task:
    return msgspec.structs.replace(listed_view(task), input=_value(task.input), output=_value(task.output))


def step_view(step: StepRecord) -> Step:
    return Step(
        key=step.key,
        agent=step.agent,
        operation=step.operation,
        state=step.state,
        attempt=step.attempt,
        failure_count=step.failure_count,
        complete_by=step.complete_by,
        input=_value(step.input),
        output=_value(step.output),
        error=step.error,
        started_at=step.started_at,
        ended_at=step.ended_at,
    )


def _value(data: bytes | None) -> Any:
    return None if data is None else msgspec.json.decode(data)
