"""What an operator does to one task. Each act is in the audit trail once it is done."""

from __future__ import annotations

from typing import Annotated

import typer

from backstay.cli.access import JsonOption, StoreOption, UrlOption, ask
from backstay.cli.arguments import ReasonOption, TaskArgument, YesOption, check_meant, json_value
from backstay.cli.render import console, note, print_json, say
from backstay.cli.tables import plan_table
from backstay.domain.operate import From
from backstay.domain.states import SETTLED
from backstay.views import Task, UndoPlan

_JSON_HELP = "null if it is left out; - reads standard input."


def resubmit(
    *,
    task_id: TaskArgument,
    from_: Annotated[
        From,
        typer.Option("--from", help="Go on at the step that failed, or forget what it did and begin anew."),
    ] = "failed",
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Let a stopped task go on."""
    _tell(ask(store, url, lambda desk: desk.resubmit(task_id, from_, reason=reason)), json=json)


def undo(
    *,
    task_id: TaskArgument,
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would be undone.")] = False,
    yes: YesOption = False,
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Undo what a task did, newest first. Shows the plan, and asks if there is a terminal to ask on."""
    plan = ask(store, url, lambda desk: desk.undo_plan(task_id))
    if preview and json:
        print_json(plan)
    elif not json:
        _show_plan(plan)
    if preview:
        return
    check_meant(f"Undo task {task_id}?", yes=yes, otherwise="nothing was undone")
    _tell(ask(store, url, lambda desk: desk.undo(task_id, reason=reason)), json=json)


def cancel(
    *,
    task_id: TaskArgument,
    no_undo: Annotated[bool, typer.Option("--no-undo", help="Leave what it did as it is.")] = False,
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Stop a task and undo what it did."""
    _tell(ask(store, url, lambda desk: desk.cancel(task_id, undo=not no_undo, reason=reason)), json=json)


def complete_step(
    *,
    task_id: TaskArgument,
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="The step, as `tasks show` names it.", show_default=False),
    ],
    output: Annotated[
        str, typer.Argument(metavar="JSON", help=f"Its result, {_JSON_HELP}", show_default=False)
    ] = "null",
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Record by hand what an agent could not: a step's result, or that its undo has been done."""
    value = json_value(output, example='{"paid": true}')
    _tell(ask(store, url, lambda desk: desk.complete_step(task_id, key, value, reason=reason)), json=json)


def signal(
    *,
    task_id: TaskArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal's name.", show_default=False)],
    payload: Annotated[
        str, typer.Argument(metavar="JSON", help=f"What it says, {_JSON_HELP}", show_default=False)
    ] = "null",
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="K", help="Makes it count once, however often it is sent."),
    ] = None,
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Tell a task something that it waits for, or will."""
    value = json_value(payload, example='{"approved": true}')
    task = ask(store, url, lambda desk: desk.signal(task_id, name, value, key=key, reason=reason))
    _tell(task, json=json)


# What came of it


def _tell(task: Task, *, json: bool) -> None:
    if json:
        print_json(task)
        return
    say(f"{task.id} is {task.state}")
    if task.state not in SETTLED:
        note(f"`backstay tasks watch {task.id}` follows it")


def _show_plan(plan: UndoPlan) -> None:
    if plan.steps:
        console().print(plan_table(plan.steps))
    else:
        say(f"{plan.task_id} is {plan.state}; there is no step to undo")
