"""Look at what is in a store: tasks, why they wait, agents, the supervisor, alerts, the audit trail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from backstay.clock import Clock
from backstay.definitions.registry import Registry
from backstay.domain.alert import Alert, AlertKind
from backstay.domain.audit import Entry
from backstay.domain.control import Controls, Subject
from backstay.domain.latency import together
from backstay.domain.lease import is_stale
from backstay.domain.legal import legal_moves
from backstay.domain.step import StepKind, StepRecord, in_order_of_beginning
from backstay.domain.task import OURS, TaskRecord, check_id
from backstay.domain.undo import is_manual, tried_again, undo_plan
from backstay.domain.why import Reason, Surroundings, explain
from backstay.searching import newest, search
from backstay.settings import Settings
from backstay.store.base import InstanceRecord, Listener, Store, TaskFilter
from backstay.store.records import AlertFilter, AuditFilter, TaskNumber
from backstay.views import (
    AgentInstance,
    AgentView,
    Insight,
    Page,
    PlannedUndo,
    RoundView,
    Search,
    Step,
    SupervisorView,
    Task,
    TokenView,
    UndoPlan,
    WorkflowView,
    calls_view,
    listed_view,
    round_view,
    step_view,
    supervisor_view,
    task_view,
    token_view,
)

Found = TypeVar("Found")


class Onlooker:
    """Reads an open store and changes nothing."""

    def __init__(self, store: Store, registry: Registry, *, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._clock = clock

    @property
    def settings(self) -> Settings:
        """What it was opened with."""
        return self._settings

    # Tasks

    async def task(self, task_id: str) -> Task:
        """Raises UnknownTask."""
        return task_view(await self._store.task(check_id(task_id)))

    async def steps(self, task_id: str) -> list[Step]:
        """The steps of a task, in the order in which they began. Raises UnknownTask."""
        return [step_view(step) for step in await self._step_records(task_id)]

    async def steps_page(self, task_id: str, *, after: int, limit: int) -> Page[Step]:
        """Part of the same list, behind its first ``after``. Raises UnknownTask."""
        behind = (await self._step_records(task_id))[after:]
        page, last = _cut(behind, limit)
        return Page([step_view(step) for step in page], None if last is None else str(after + limit))

    async def _step_records(self, task_id: str) -> list[StepRecord]:
        journal = await self._store.steps(check_id(task_id))
        return [step for step in journal if step.kind is StepKind.STEP]

    async def tasks(self, wanted: TaskFilter) -> Page[Task]:
        """A page of tasks, newest first, without inputs and outputs."""
        found = await self._store.tasks(_one_more(wanted))
        page, before = _cut(found, wanted.limit)
        return Page([listed_view(task) for task in page], None if before is None else str(before.key))

    async def search(self, wanted: TaskFilter, *, error_text: str | None = None) -> Search:
        """As ``tasks``, in bounded time, whatever is wanted: what is met rarely may take several pages.

        With ``error_text`` only tasks whose error holds it, in letters of either case.
        """
        found = await search(self._store, wanted, error_text=error_text, clock=self._clock)
        items = [listed_view(task) for task in found.tasks]
        return Search(items, None if found.before is None else str(found.before), is_cut=found.is_cut)

    async def newest(self) -> int:
        """The number of the newest task: it tells how many came in since another time."""
        return await newest(self._store)

    async def why(self, task_id: str) -> Reason:
        """What the task waits for, in one sentence, and the command that would move it."""
        task = await self._store.task(check_id(task_id))
        return await self._reason(task, await self._store.steps(task_id))

    async def insight(self, task_id: str) -> Insight:
        """All that there is to see of a task. Raises UnknownTask."""
        task = await self._store.task(check_id(task_id))
        steps = await self._store.steps(task_id)
        return Insight(
            record=task,
            task=task_view(task),
            steps=in_order_of_beginning(steps),
            reason=await self._reason(task, steps),
            moves=legal_moves(task, steps, now=self._clock.now()),
        )

    async def _reason(self, task: TaskRecord, steps: list[StepRecord]) -> Reason:
        live = await self._live()
        around = Surroundings(
            now=self._clock.now(),
            schedulers=sum(bool(one.runs) for one in live),
            runnable=any((task.workflow, task.version) in one.runs for one in live),
            agents=frozenset(name for one in live for name in one.report.agents),
            hosted=any("agents" in one.roles for one in live),
            open_breakers={
                name: report.open_until
                for one in live
                for name, report in one.report.agents.items()
                if report.open_until is not None
            },
            controls=Controls(await self._store.records.controls()),
        )
        return explain(task, steps, around)

    async def undo_plan(self, task_id: str) -> UndoPlan:
        """What an undo of the task would do now. Raises UnknownTask."""
        task = await self._store.task(check_id(task_id))
        plan = undo_plan(tried_again(step) for step in await self._store.steps(task_id))
        return UndoPlan(
            task_id=task.id,
            state=task.state,
            steps=[
                PlannedUndo(key=step.key, agent=step.agent, outcome=str(step.outcome), manual=is_manual(step))
                for step in plan
            ],
        )

    # Who works

    async def agents(self) -> list[AgentView]:
        """Every agent that a live process has, or that is held back; what is built in only while it works."""
        live = await self._live()
        controls = Controls(await self._store.records.controls())
        names = {
            name
            for one in live
            for name, report in one.report.agents.items()
            if not name.startswith(OURS) or report.in_flight or report.waiting
        } | controls.names(Subject.AGENT)
        return [_agent_view(name, live, controls) for name in sorted(names)]

    async def agent(self, name: str) -> AgentView:
        """How one agent stands, even if no live process has it."""
        return _agent_view(name, await self._live(), Controls(await self._store.records.controls()))

    async def workflows(self) -> list[WorkflowView]:
        """Every workflow of an application that a live process runs, or that is held back."""
        live = await self._live()
        controls = Controls(await self._store.records.controls())
        names = {name for one in live for name, _ in one.runs if not name.startswith(OURS)} | controls.names(
            Subject.WORKFLOW
        )
        return [_workflow_view(name, live, controls) for name in sorted(names)]

    async def workflow(self, name: str) -> WorkflowView:
        """How one workflow stands, even if no live process runs it."""
        return _workflow_view(name, await self._live(), Controls(await self._store.records.controls()))

    async def instances(self) -> list[InstanceRecord]:
        """The processes that live."""
        return await self._live()

    async def rounds(self, *, limit: int) -> list[RoundView]:
        """The last rounds of the supervisor, newest first; of idle ones in a row only the last is kept."""
        return [round_view(one) for one in await self._store.supervision.rounds(limit=limit)]

    async def supervisor(self) -> SupervisorView:
        supervision = self._store.supervision
        return supervisor_view(await supervision.leader(), await supervision.rounds(limit=1))

    # What operators watch

    async def numbers(self, *, counted: int) -> tuple[list[TaskNumber], dict[AlertKind, int]]:
        """How many tasks are in each state and how many alerts open, counted no further than ``counted``."""
        tasks = await self._store.records.task_numbers(counted=counted, now=self._clock.now())
        return tasks, await self._store.alerting.open_alerts(counted=counted)

    async def alerts(self, wanted: AlertFilter) -> Page[Alert]:
        """Newest first."""
        found = await self._store.records.alerts(_one_more(wanted))
        page, before = _cut(found, wanted.limit)
        return Page(page, None if before is None else str(before.id))

    async def audit(self, wanted: AuditFilter) -> Page[Entry]:
        """Newest first."""
        found = await self._store.records.audit(_one_more(wanted))
        page, before = _cut(found, wanted.limit)
        return Page(page, None if before is None else str(before.id))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` after each commit that changed something; returns how to stop that."""
        return self._store.listen(listener)

    async def tokens(self) -> list[TokenView]:
        return [token_view(token) for token in await self._store.records.tokens()]

    async def _live(self) -> list[InstanceRecord]:
        now = self._clock.now()
        return [
            one
            for one in await self._store.instances()
            if one.live and not is_stale(one.heartbeat_at, lease=self._settings.lease, now=now)
        ]


Wanted = TypeVar("Wanted", TaskFilter, AlertFilter, AuditFilter)


def _one_more(wanted: Wanted) -> Wanted:
    """One more than asked for tells whether there is a next page."""
    return msgspec.structs.replace(wanted, limit=wanted.limit + 1)


def _cut(found: Sequence[Found], limit: int) -> tuple[list[Found], Found | None]:
    """The page that was asked for, and its last entry when there is more behind it."""
    page = list(found[:limit])
    return page, page[-1] if len(found) > limit else None


def _agent_view(name: str, live: Iterable[InstanceRecord], controls: Controls) -> AgentView:
    control = controls.of(Subject.AGENT, name)
    having = [(one.id, report) for one in live if (report := one.report.agents.get(name)) is not None]
    return AgentView(
        name=name,
        paused=control is not None and control.paused,
        forced_breaker=None if control is None else control.breaker,
        held_by=None if control is None else control.by,
        reason=None if control is None else control.reason,
        instances=[
            AgentInstance(
                id=instance,
                in_flight=report.in_flight,
                waiting=report.waiting,
                concurrency=report.concurrency,
                concurrency_max=report.concurrency_max or report.concurrency,
                breaker=report.breaker,
                open_until=report.open_until,
                calls=calls_view(report.calls),
                breaker_turns=report.breaker_turns,
            )
            for instance, report in having
        ],
        calls=calls_view(together(report.calls for _, report in having)),
    )


def _workflow_view(name: str, live: Iterable[InstanceRecord], controls: Controls) -> WorkflowView:
    control = controls.pause_of(Subject.WORKFLOW, name)
    holders = [(one.id, version) for one in live for known, version in one.runs if known == name]
    return WorkflowView(
        name=name,
        versions=sorted({version for _, version in holders}),
        paused=control is not None,
        held_by=None if control is None else control.by,
        reason=None if control is None else control.reason,
        instances=sorted({instance for instance, _ in holders}),
    )
