"""How commands show what they found: tables for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure
from backstay.domain.why import Reason
from backstay.views import Step, Task

# Nobody reads a pipe line by line: there a row stays on one line as long as it can.
PIPE_COLUMNS: Final = 240

# An id of this length, and a UUID has 36 characters, is kept on one line.
ID_COLUMNS: Final = 40

VALUE_LENGTH_MAX: Final = 2_000

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

_UNITS: Final = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("m", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
)


# Where it goes


def console() -> Console:
    """The terminal, or whatever stands in its place: then without colours and cut lines."""
    screen = Console(highlight=False, markup=False, emoji=False)
    if not screen.is_terminal and screen.width < PIPE_COLUMNS:
        screen.width = PIPE_COLUMNS
    return screen


def print_json(value: Any) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def complain(message: str) -> None:
    """One line about what went wrong, whatever the message holds."""
    typer.echo(f"Error: {visible(message)}", err=True)


def note(message: str) -> None:
    """Something beside the result; a pipe does not see it."""
    typer.echo(visible(message), err=True)


# Tables


def task_table(tasks: Sequence[Task], *, now: datetime) -> Table:
    """A page of tasks, one line each where the width allows it."""
    table = _table("state", "id", "workflow", "created", "changed", "note")
    for task in tasks:
        table.add_row(
            state_text(task.state),
            task.id,
            visible(_workflow(task)),
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
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bright_black", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("task", Text(task.id, style="bold"))
    grid.add_row("state", state_text(task.state))
    grid.add_row("workflow", visible(_workflow(task)))
    for label, value in _facts(task, now):
        grid.add_row(label, Text(visible(value)))
    if task.error is not None:
        grid.add_row("error", Text(visible(failure_text(task.error)), style="red"))
    grid.add_row("why", Text(visible(reason.reason)))
    if reason.command is not None:
        grid.add_row("", Text(visible(reason.command), style="bold"))
    return grid


def step_table(steps: Sequence[Step], *, now: datetime) -> Table:
    """The steps of a task in the order in which they began."""
    table = _table("step", "state", "agent", "attempt", "began", "took", "result")
    for step in steps:
        table.add_row(
            visible(step.key),
            state_text(step.state),
            visible(step.agent or ""),
            str(step.attempt) if step.attempt else "",
            age(step.started_at, now=now) if step.started_at else "",
            _took(step, now),
            _cut(_result(step), style="red" if step.error else ""),
        )
    _keep_whole(table, "state", "attempt", "began", "took")
    return table


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bright_black")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _keep_whole(table: Table, *headings: str) -> None:
    """These columns get the width they need before the others share the rest."""
    for column in table.columns:
        if column.header in headings:
            column.no_wrap = True


def _cut(text: str, *, style: str = "") -> Text:
    """What does not fit on the line is left out."""
    return Text(visible(text), style=style, no_wrap=True, overflow="ellipsis")


# Words and numbers


def state_text(state: str) -> Text:
    return Text(state, style=STYLES.get(state, ""))


def age(then: datetime, *, now: datetime) -> str:
    """How far away in one unit, rounded down: ``now``, ``42s ago``, ``in 5m``."""
    apart = now - then
    size = span(abs(apart))
    if size == "0s":
        return "now"
    return f"{size} ago" if apart > timedelta(0) else f"in {size}"


def span(time: timedelta) -> str:
    """A length of time in its largest unit, rounded down."""
    for unit, length in _UNITS:
        if time >= length:
            return f"{time // length}{unit}"
    return "0s"


def instant(value: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def failure_text(error: Failure) -> str:
    at = f" at {error.step}" if error.step else ""
    return f"{error.type}{at}: {error.message}"


def visible(text: str) -> str:
    """On one line, and without anything that a terminal would obey."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


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
    facts.append(("input", _shortened(task.input)))
    if task.state == TaskState.PROCESSED:
        facts.append(("output", _shortened(task.output)))
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
        return f"{step.error.type}: {step.error.message}"
    return "" if step.output is None else _shortened(step.output)


def _shortened(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= VALUE_LENGTH_MAX else f"{text[: VALUE_LENGTH_MAX - 1]}…"
