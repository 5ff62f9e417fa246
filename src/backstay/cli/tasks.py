"""``backstay tasks``: list them, look at one, ask why it does not move; and the commands that move it."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from backstay.cli import acting
from backstay.cli.access import Desk, JsonOption, StoreOption, UrlOption, ask
from backstay.cli.arguments import (
    CursorOption,
    LimitOption,
    TaskArgument,
    checked_limit,
    key_of,
    pair,
    past_instant,
)
from backstay.cli.render import console, print_json, say, show_page
from backstay.cli.tables import step_table, task_details, task_table
from backstay.cli.watch import watch
from backstay.clock import SystemClock
from backstay.domain.states import TaskState
from backstay.domain.why import Reason
from backstay.store.base import TaskFilter
from backstay.views import Step, Task

commands: Final = typer.Typer(
    help="See where tasks are, and why; step in.", no_args_is_help=True, pretty_exceptions_enable=False
)


@commands.command("ls")
def ls(
    *,
    state: Annotated[
        list[TaskState] | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help=f"Only tasks in this state; may be repeated. {', '.join(TaskState)}.",
        ),
    ] = None,
    workflow: Annotated[
        str | None, typer.Option("--workflow", metavar="NAME", help="Only tasks of this workflow.")
    ] = None,
    attribute: Annotated[
        str | None, typer.Option("--attribute", metavar="NAME:VALUE", help="Only tasks with this attribute.")
    ] = None,
    created_after: Annotated[
        str | None,
        typer.Option("--created-after", metavar="WHEN", help="Only younger ones: an instant, or 2h ago."),
    ] = None,
    created_before: Annotated[
        str | None, typer.Option("--created-before", metavar="WHEN", help="Only older ones.")
    ] = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """List tasks, the newest first."""
    now = SystemClock().now()
    wanted = TaskFilter(
        states=tuple(state or ()),
        workflow=workflow,
        attribute=None if attribute is None else pair(attribute, ":"),
        created_after=past_instant(created_after, option="--created-after", now=now),
        created_before=past_instant(created_before, option="--created-before", now=now),
        before=key_of(cursor),
        limit=checked_limit(limit),
    )
    page = ask(store, url, lambda desk: desk.tasks(wanted))
    show_page(
        page,
        json=json,
        table=lambda tasks: task_table(tasks, now=now),
        nothing="no task matches" if wanted != TaskFilter(limit=limit) else "there are no tasks yet",
    )


@commands.command("show")
def show(
    task_id: TaskArgument, store: StoreOption = None, url: UrlOption = None, json: JsonOption = False
) -> None:
    """Show one task and its steps."""
    if json:
        print_json(ask(store, url, lambda desk: desk.task(task_id)))
        return
    task, steps, reason = ask(store, url, lambda desk: _whole(desk, task_id))
    now = SystemClock().now()
    screen = console()
    screen.print(task_details(task, reason, now=now))
    if steps:
        screen.print(step_table(steps, now=now))


commands.command("watch")(watch)


@commands.command("why")
def why(
    task_id: TaskArgument, store: StoreOption = None, url: UrlOption = None, json: JsonOption = False
) -> None:
    """Say in one sentence what a task waits for, and which command would move it."""
    reason = ask(store, url, lambda desk: desk.why(task_id))
    if json:
        print_json(reason)
        return
    say(reason.reason)
    if reason.command is not None:
        say(f"  {reason.command}")


commands.command("resubmit")(acting.resubmit)
commands.command("undo")(acting.undo)
commands.command("cancel")(acting.cancel)
commands.command("complete-step")(acting.complete_step)
commands.command("signal")(acting.signal)


async def _whole(desk: Desk, task_id: str) -> tuple[Task, list[Step], Reason]:
    return await desk.task(task_id), await desk.steps(task_id), await desk.why(task_id)
