"""What lists and records look like to people: one line for each, whole where it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from backstay.cli.cells import LOUD, QUIET, columns, cut, keep_whole, labels, words
from backstay.cli.render import failure_text, value_text
from backstay.domain.alert import Alert
from backstay.domain.audit import Entry, changed
from backstay.domain.states import StepState, TaskState
from backstay.domain.why import Reason
from backstay.domain.wording import age, brief, instant, took
from backstay.mailroom import DeadLetter, PeekedMessage, QueueView
from backstay.views import (
    AgentInstance,
    AgentView,
    CallsView,
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
# So is a name of this length.
NAME_COLUMNS: Final = 20

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


# Tasks


def task_table(tasks: Sequence[Task], *, now: datetime) -> Table:
    """A page of tasks, one line each where the width allows it."""
    table = columns("state", "id", "workflow", "created", "changed", "note")
    for task in tasks:
        table.add_row(
            state_text(task.state),
            words(task.id),
            words(_workflow(task)),
            age(task.created_at, now=now),
            age(task.updated_at, now=now),
            cut(_note(task)),
        )
    keep_whole(table, "state", "created", "changed")
    # An id is there to be copied: it takes its place first, and wraps rather than loses a character.
    if all(len(task.id) <= ID_COLUMNS for task in tasks):
        keep_whole(table, "id")
    return table


def task_details(task: Task, reason: Reason, *, now: datetime) -> Table:
    """Everything about one task but its steps; what is not there is left out."""
    grid = labels()
    grid.add_row("task", words(task.id, style="bold"))
    grid.add_row("state", state_text(task.state))
    grid.add_row("workflow", words(_workflow(task)))
    for label, value in _facts(task, now):
        grid.add_row(label, words(value))
    if task.error is not None:
        grid.add_row("error", words(failure_text(task.error), style="red"))
    grid.add_row("why", words(reason.reason))
    if reason.command is not None:
        grid.add_row("", words(reason.command, style="bold"))
    return grid


def step_table(steps: Sequence[Step], *, now: datetime) -> Table:
    """The steps of a task in the order in which they began."""
    table = columns("step", "state", "agent", "attempt", "began", "took", "result")
    for step in steps:
        table.add_row(
            words(step.key),
            state_text(step.state),
            words(step.agent or ""),
            str(step.attempt) if step.attempt else "",
            age(step.started_at, now=now) if step.started_at else "",
            _took(step, now),
            cut(_result(step), style="red" if step.error else ""),
        )
    keep_whole(table, "state", "attempt", "began", "took")
    return table


def plan_table(steps: Iterable[PlannedUndo]) -> Table:
    """What an undo would do, from the first to the last."""
    table = columns("", "step", "outcome", "undone by")
    for number, step in enumerate(steps, start=1):
        who = words("a person", style=LOUD) if step.manual else words(step.agent or "the workflow")
        table.add_row(f"{number}.", words(step.key), words(step.outcome), who)
    return table


# Who works


def agent_table(agents: Sequence[AgentView]) -> Table:
    """Every agent over all live processes."""
    table = columns(
        "agent",
        "state",
        "breaker",
        "in flight",
        "limit",
        "waiting",
        "p50",
        "p99",
        "failing",
        "processes",
        "note",
    )
    keep_whole(table, "state", "p50", "p99", "failing")
    if all(len(agent.name) <= NAME_COLUMNS for agent in agents):
        keep_whole(table, "agent")
    for agent in agents:
        table.add_row(
            words(agent.name),
            _standing(paused=agent.paused, processes=len(agent.instances)),
            _breaker(agent),
            str(sum(one.in_flight for one in agent.instances)),
            _limit(agent),
            str(sum(one.waiting for one in agent.instances)),
            _seconds(agent.calls.p50_seconds),
            _seconds(agent.calls.p99_seconds),
            _failing(agent.calls),
            str(len(agent.instances)),
            cut(_holder(agent.held_by, agent.reason)),
        )
    return table


def workflow_table(workflows: Iterable[WorkflowView]) -> Table:
    table = columns("workflow", "versions", "state", "processes", "note")
    for workflow in workflows:
        table.add_row(
            words(workflow.name),
            ", ".join(map(str, workflow.versions)),
            _standing(paused=workflow.paused, processes=len(workflow.instances)),
            str(len(workflow.instances)),
            cut(_holder(workflow.held_by, workflow.reason)),
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
    table = columns("id", "since", "kind", "task", "step", "taken up by", "message")
    for alert in alerts:
        table.add_row(
            str(alert.id),
            age(alert.at, now=now),
            words(alert.kind, style=QUIET if alert.acknowledged_by else LOUD),
            words(alert.task_id or ""),
            words(alert.step or ""),
            words(alert.acknowledged_by or ""),
            cut(alert.message),
        )
    keep_whole(table, "id", "since", "kind")
    return table


def audit_table(entries: Iterable[Entry]) -> Table:
    table = columns("at", "who", "action", "target", "change", "reason")
    for entry in entries:
        table.add_row(
            instant(entry.at),
            words(entry.who),
            words(entry.action),
            words(entry.target),
            words(_change(entry.before, entry.after)),
            cut(entry.reason or ""),
        )
    keep_whole(table, "at")
    return table


def token_table(tokens: Iterable[TokenView], *, now: datetime) -> Table:
    table = columns("token", "role", "created", "revoked")
    for token in tokens:
        table.add_row(
            words(token.name),
            token.role,
            age(token.created_at, now=now),
            age(token.revoked_at, now=now) if token.revoked_at else "",
            style=QUIET if token.revoked_at else "",
        )
    return table


# Queues


def queue_table(queues: Iterable[QueueView]) -> Table:
    counts = ("ready", "locked", "scheduled", "deferred", "dead")
    table = columns("queue", *counts, "lock", "deliveries", "ttl", "sessions")
    for queue in queues:
        table.add_row(
            words(queue.name),
            str(queue.ready),
            str(queue.locked),
            str(queue.scheduled),
            str(queue.deferred),
            Text(str(queue.dead), style=LOUD if queue.dead else ""),
            queue.lock,
            str(queue.max_deliveries),
            queue.ttl or "",
            "yes" if queue.sessions else "",
        )
    return table


def message_table(messages: Iterable[PeekedMessage], *, now: datetime) -> Table:
    table = columns("state", "id", "sent", "priority", "session", "deliveries", "body")
    for message in messages:
        table.add_row(
            words(message.state),
            words(message.id),
            age(message.enqueued_at, now=now),
            str(message.priority),
            words(message.session or ""),
            str(message.delivery_count),
            cut(value_text(message.body)),
        )
    keep_whole(table, "state", "sent", "priority")
    return table


def dead_table(letters: Iterable[DeadLetter], *, now: datetime) -> Table:
    table = columns("id", "set aside", "deliveries", "reason", "detail", "body")
    for letter in letters:
        table.add_row(
            words(letter.id),
            age(letter.dead_at, now=now),
            str(letter.delivery_count),
            words(letter.reason, style="red"),
            cut(letter.detail or ""),
            cut(value_text(letter.body)),
        )
    keep_whole(table, "set aside")
    return table


def fact_grid(facts: Iterable[tuple[str, str]]) -> Table:
    """Labels and what they say."""
    grid = labels()
    for label, value in facts:
        grid.add_row(label, words(value))
    return grid


# Cells


def state_text(state: str) -> Text:
    return words(state, style=STYLES.get(state, ""))


def _standing(*, paused: bool, processes: int) -> Text:
    if paused:
        return Text("paused", style="yellow")
    return Text("live", style="green") if processes else Text("absent", style=QUIET)


def _breaker(agent: AgentView) -> Text:
    """Where the breaker is held; else where it stands, and in how many processes if they disagree."""
    if agent.forced_breaker is not None:
        return words(f"held {agent.forced_breaker}", style=LOUD if agent.forced_breaker == "open" else "")
    standing = Counter(one.breaker for one in agent.instances)
    text = ", ".join(_counted(state, number, agent.instances) for state, number in standing.items())
    return words(text, style="" if set(standing) <= {"closed"} else LOUD)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else brief(seconds)


def _failing(calls: CallsView) -> Text:
    """Which share of the calls failed lately."""
    if not calls.number:
        return Text()
    return Text(f"{calls.failed / calls.number:.1%}", style=LOUD if calls.failed else "")


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
    return ", ".join(
        f"{name} {_word(earlier)} → {_word(later)}" for name, earlier, later in changed(before, after)
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
    return took((step.ended_at or now) - step.started_at)


def _result(step: Step) -> str:
    if step.error is not None:
        return failure_text(step.error, with_step=False)
    return "" if step.output is None else value_text(step.output)
