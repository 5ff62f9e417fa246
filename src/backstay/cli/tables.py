"""What lists and records look like to people: one line for each, whole where it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from backstay.cli.render import age, failure_text, instant, span, value_text, visible
from backstay.domain.alert import Alert
from backstay.domain.audit import Entry
from backstay.domain.states import StepState, TaskState
from backstay.domain.why import Reason
from backstay.mailroom import DeadLetter, PeekedMessage, QueueView
from backstay.views import (
    AgentInstance,
    AgentView,
    PlannedUndo,
    RoundView,
    Step,
    SupervisorView,
    Task,
    TokenView,
    WorkflowView,
)

# An id of this length, and a UUID has 36 characters, is kept on one line.
ID_COLUMNS: Final = 40

STYLES: Final[Mapping[str, str]] = {
    TaskState.PENDING: "yellow",
    TaskState.PROCESSING: "cyan",
    TaskState.PROCESSED: "green",
    TaskState.WAITING: "yellow",
    TaskState.ERROR: "bold red",
    TaskState.UNDOING: "magenta",
    TaskState.UNDONE: "blue",
    TaskState.UNDO_FAILED: "bold red",
    TaskState.CANCELLED: "bright_black",
    StepState.RUNNING: "cyan",
    StepState.COMPLETED: "green",
    StepState.FAILED: "red",
    StepState.SKIPPED: "bright_black",
}
_QUIET: Final = "bright_black"
_LOUD: Final = "bold red"

# The audit trail has columns of their own for these.
_BESIDE_THE_CHANGE: Final = frozenset({"by", "reason"})


# Tasks


def task_table(tasks: Sequence[Task], *, now: datetime) -> Table:
    """A page of tasks, one line each where the width allows it."""
    table = _table("state", "id", "workflow", "created", "changed", "note")
    for task in tasks:
        table.add_row(
            state_text(task.state),
            _text(task.id),
            _text(_workflow(task)),
            age(task.created_at, now=now),
            age(task.updated_at, now=now),
            _cut(_note(task)),
        )
    _keep_whole(table, "state", "created", "changed")
    # An id is there to be copied: it takes its place first, and wraps rather than loses a character.
    if all(len(task.id) <= ID_COLUMNS for task in tasks):
        _keep_whole(table, "id")
    return table


def task_details(task: Task, reason: Reason, *, now: datetime) -> Table:
    """Everything about one task but its steps; what is not there is left out."""
    grid = _grid()
    grid.add_row("task", _text(task.id, style="bold"))
    grid.add_row("state", state_text(task.state))
    grid.add_row("workflow", _text(_workflow(task)))
    for label, value in _facts(task, now):
        grid.add_row(label, _text(value))
    if task.error is not None:
        grid.add_row("error", _text(failure_text(task.error), style="red"))
    grid.add_row("why", _text(reason.reason))
    if reason.command is not None:
        grid.add_row("", _text(reason.command, style="bold"))
    return grid


def step_table(steps: Sequence[Step], *, now: datetime) -> Table:
    """The steps of a task in the order in which they began."""
    table = _table("step", "state", "agent", "attempt", "began", "took", "result")
    for step in steps:
        table.add_row(
            _text(step.key),
            state_text(step.state),
            _text(step.agent or ""),
            str(step.attempt) if step.attempt else "",
            age(step.started_at, now=now) if step.started_at else "",
            _took(step, now),
            _cut(_result(step), style="red" if step.error else ""),
        )
    _keep_whole(table, "state", "attempt", "began", "took")
    return table


def plan_table(steps: Iterable[PlannedUndo]) -> Table:
    """What an undo would do, from the first to the last."""
    table = _table("", "step", "outcome", "undone by")
    for number, step in enumerate(steps, start=1):
        who = _text("a person", style=_LOUD) if step.manual else _text(step.agent or "the workflow")
        table.add_row(f"{number}.", _text(step.key), _text(step.outcome), who)
    return table


# Who works


def agent_table(agents: Iterable[AgentView]) -> Table:
    """Every agent over all live processes."""
    table = _table("agent", "state", "breaker", "in flight", "limit", "waiting", "processes", "note")
    for agent in agents:
        table.add_row(
            _text(agent.name),
            _standing(paused=agent.paused, processes=len(agent.instances)),
            _breaker(agent),
            str(sum(one.in_flight for one in agent.instances)),
            _limit(agent),
            str(sum(one.waiting for one in agent.instances)),
            str(len(agent.instances)),
            _cut(_holder(agent.held_by, agent.reason)),
        )
    return table


def workflow_table(workflows: Iterable[WorkflowView]) -> Table:
    table = _table("workflow", "versions", "state", "processes", "note")
    for workflow in workflows:
        table.add_row(
            _text(workflow.name),
            ", ".join(map(str, workflow.versions)),
            _standing(paused=workflow.paused, processes=len(workflow.instances)),
            str(len(workflow.instances)),
            _cut(_holder(workflow.held_by, workflow.reason)),
        )
    return table


def supervisor_facts(view: SupervisorView, *, now: datetime) -> list[tuple[str, str]]:
    """Who leads, and what the last round did."""
    facts = [("leader", view.leader or "nobody")]
    if view.lease_until is not None:
        facts.append(("lease until", f"{instant(view.lease_until)}, {age(view.lease_until, now=now)}"))
    last = view.last_round
    if last is not None:
        facts.append(("last round", f"{instant(last.at)}, {age(last.at, now=now)}"))
        facts.append(("it did", _round_text(last)))
    return facts


def _round_text(last: RoundView) -> str:
    undos = f" ({last.undone} of them undos)" if last.undone else ""
    return f"{last.recovered} recovered{undos}, {last.woken} woken, {last.errors} held back"


# What operators watch


def alert_table(alerts: Iterable[Alert], *, now: datetime) -> Table:
    table = _table("id", "since", "kind", "task", "step", "taken up by", "message")
    for alert in alerts:
        table.add_row(
            str(alert.id),
            age(alert.at, now=now),
            _text(alert.kind, style=_QUIET if alert.acknowledged_by else _LOUD),
            _text(alert.task_id or ""),
            _text(alert.step or ""),
            _text(alert.acknowledged_by or ""),
            _cut(alert.message),
        )
    _keep_whole(table, "id", "since", "kind")
    return table


def audit_table(entries: Iterable[Entry]) -> Table:
    table = _table("at", "who", "action", "target", "change", "reason")
    for entry in entries:
        table.add_row(
            instant(entry.at),
            _text(entry.who),
            _text(entry.action),
            _text(entry.target),
            _text(_change(entry.before, entry.after)),
            _cut(entry.reason or ""),
        )
    _keep_whole(table, "at")
    return table


def token_table(tokens: Iterable[TokenView], *, now: datetime) -> Table:
    table = _table("token", "role", "created", "revoked")
    for token in tokens:
        table.add_row(
            _text(token.name),
            token.role,
            age(token.created_at, now=now),
            age(token.revoked_at, now=now) if token.revoked_at else "",
            style=_QUIET if token.revoked_at else "",
        )
    return table


# Queues


def queue_table(queues: Iterable[QueueView]) -> Table:
    table = _table("queue", "ready", "locked", "scheduled", "dead", "lock", "deliveries", "ttl", "sessions")
    for queue in queues:
        table.add_row(
            _text(queue.name),
            str(queue.ready),
            str(queue.locked),
            str(queue.scheduled),
            Text(str(queue.dead), style=_LOUD if queue.dead else ""),
            queue.lock,
            str(queue.max_deliveries),
            queue.ttl or "",
            "yes" if queue.sessions else "",
        )
    return table


def message_table(messages: Iterable[PeekedMessage], *, now: datetime) -> Table:
    table = _table("state", "id", "sent", "priority", "session", "deliveries", "body")
    for message in messages:
        table.add_row(
            _text(message.state),
            _text(message.id),
            age(message.enqueued_at, now=now),
            str(message.priority),
            _text(message.session or ""),
            str(message.delivery_count),
            _cut(value_text(message.body)),
        )
    _keep_whole(table, "state", "sent", "priority")
    return table


def dead_table(letters: Iterable[DeadLetter], *, now: datetime) -> Table:
    table = _table("id", "set aside", "deliveries", "reason", "detail", "body")
    for letter in letters:
        table.add_row(
            _text(letter.id),
            age(letter.dead_at, now=now),
            str(letter.delivery_count),
            _text(letter.reason, style="red"),
            _cut(letter.detail or ""),
            _cut(value_text(letter.body)),
        )
    _keep_whole(table, "set aside")
    return table


def fact_grid(facts: Iterable[tuple[str, str]]) -> Table:
    """Labels and what they say."""
    grid = _grid()
    for label, value in facts:
        grid.add_row(label, _text(value))
    return grid


# Cells


def state_text(state: str) -> Text:
    return _text(state, style=STYLES.get(state, ""))


def _text(text: str, *, style: str = "") -> Text:
    return Text(visible(text), style=style)


def _cut(text: str, *, style: str = "") -> Text:
    """What does not fit on the line is left out."""
    return Text(visible(text), style=style, no_wrap=True, overflow="ellipsis")


def _standing(*, paused: bool, processes: int) -> Text:
    if paused:
        return Text("paused", style="yellow")
    return Text("live", style="green") if processes else Text("absent", style=_QUIET)


def _breaker(agent: AgentView) -> Text:
    """Where the breaker is held; else where it stands, and in how many processes if they disagree."""
    if agent.forced_breaker is not None:
        return _text(f"held {agent.forced_breaker}", style=_LOUD if agent.forced_breaker == "open" else "")
    standing = Counter(one.breaker for one in agent.instances)
    text = ", ".join(_counted(state, number, agent.instances) for state, number in standing.items())
    return _text(text, style="" if set(standing) <= {"closed"} else _LOUD)


def _limit(agent: AgentView) -> str:
    """How many steps may run at once over all processes, and at most if that follows a pace."""
    if not agent.instances or any(one.concurrency is None for one in agent.instances):
        return ""
    now = sum(one.concurrency or 0 for one in agent.instances)
    most = sum(one.concurrency_max or 0 for one in agent.instances)
    return str(most) if now == most else f"{now} of {most}"


def _counted(state: str, number: int, instances: Sequence[AgentInstance]) -> str:
    return state if number == len(instances) else f"{state} in {number}"


def _holder(by: str | None, reason: str | None) -> str:
    if by is None:
        return ""
    return f"held by {by}: {reason}" if reason else f"held by {by}"


def _change(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """The facts that are others afterwards."""
    earlier, later = before or {}, after or {}
    return ", ".join(
        f"{name} {_word(earlier.get(name))} → {_word(later.get(name))}"
        for name in {**earlier, **later}
        if name not in _BESIDE_THE_CHANGE and earlier.get(name) != later.get(name)
    )


def _word(value: Any) -> str:
    return value if isinstance(value, str) else value_text(value)


def _workflow(task: Task) -> str:
    return task.workflow if task.version == 1 else f"{task.workflow} v{task.version}"


def _note(task: Task) -> str:
    if task.error is not None:
        return failure_text(task.error)
    return f"on {task.locked_by}" if task.locked_by else ""


def _facts(task: Task, now: datetime) -> list[tuple[str, str]]:
    instants = [
        ("created", task.created_at),
        ("changed", task.updated_at),
        ("complete by", task.complete_by),
        ("hard end", task.hard_end),
    ]
    facts = [(label, f"{instant(at)}, {age(at, now=now)}") for label, at in instants if at is not None]
    if task.locked_by:
        facts.append(("locked by", task.locked_by))
    if task.failure_count:
        facts.append(("failures", str(task.failure_count)))
    facts += [("attribute", f"{name} = {value}") for name, value in task.attributes.items()]
    facts.append(("input", value_text(task.input)))
    if task.state == TaskState.PROCESSED:
        facts.append(("output", value_text(task.output)))
    return facts


def _took(step: Step, now: datetime) -> str:
    if step.started_at is None:
        return ""
    time = (step.ended_at or now) - step.started_at
    if time < timedelta(seconds=1):
        return f"{max(time, timedelta(0)) // timedelta(milliseconds=1)}ms"
    return span(time)


def _result(step: Step) -> str:
    if step.error is not None:
        return failure_text(step.error, with_step=False)
    return "" if step.output is None else value_text(step.output)


# Shapes


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style=_QUIET)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=_QUIET, no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _keep_whole(table: Table, *headings: str) -> None:
    """These columns get the width they need before the others share the rest."""
    for column in table.columns:
        if column.header in headings:
            column.no_wrap = True
