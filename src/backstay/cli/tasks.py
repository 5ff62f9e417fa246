"""``backstay tasks``: list them, look at one, ask why it does not move."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Annotated, Final

import typer

from backstay.cli.access import JsonOption, StoreOption, looking
from backstay.cli.render import console, note, print_json, step_table, task_details, task_table, visible
from backstay.clock import SystemClock
from backstay.domain.states import TaskState
from backstay.domain.why import Reason
from backstay.store.base import TaskFilter
from backstay.views import Step, Task

LIMIT_MAX: Final = 1_000
_KEY_MAX: Final = 2**63 - 1

commands: Final = typer.Typer(
    help="See where tasks are, and why.", no_args_is_help=True, pretty_exceptions_enable=False
)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the task.", show_default=False)]


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
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help=f"At most so many, 1 to {LIMIT_MAX}.")
    ] = 100,
    cursor: Annotated[
        str | None, typer.Option("--cursor", help="Go on where the page that gave this cursor ended.")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List tasks, the newest first."""
    wanted = TaskFilter(
        states=tuple(state or ()),
        workflow=workflow,
        attribute=None if attribute is None else _pair(attribute),
        before=None if cursor is None else _key(cursor),
        limit=_checked(limit),
    )
    found, more = asyncio.run(_page(store, wanted))
    following = None if more is None else _cursor(more)
    if json:
        print_json({"items": found, "next": following})
        return
    if not found:
        note("no task matches" if wanted != TaskFilter(limit=limit) else "there are no tasks yet")
        return
    console().print(task_table(found, now=SystemClock().now()))
    if following is not None:
        note(f"there may be more: repeat this command with --cursor {following}")


@commands.command("show")
def show(task_id: IdArgument, store: StoreOption = None, json: JsonOption = False) -> None:
    """Show one task and its steps."""
    task, steps, reason = asyncio.run(_task(store, task_id))
    if json:
        print_json(task)
        return
    now = SystemClock().now()
    screen = console()
    screen.print(task_details(task, reason, now=now))
    if steps:
        screen.print(step_table(steps, now=now))


@commands.command("why")
def why(task_id: IdArgument, store: StoreOption = None, json: JsonOption = False) -> None:
    """Say in one sentence what a task waits for, and which command would move it."""
    reason = asyncio.run(_reason(store, task_id))
    if json:
        print_json(reason)
        return
    typer.echo(visible(reason.reason))
    if reason.command is not None:
        typer.echo(f"  {visible(reason.command)}")


# What the commands ask of the store


async def _page(store: str | None, wanted: TaskFilter) -> tuple[list[Task], int | None]:
    async with looking(store) as client:
        return await client.tasks(wanted)


async def _task(store: str | None, task_id: str) -> tuple[Task, list[Step], Reason]:
    async with looking(store) as client:
        return await client.task(task_id), await client.steps(task_id), await client.why(task_id)


async def _reason(store: str | None, task_id: str) -> Reason:
    async with looking(store) as client:
        return await client.why(task_id)


# What options mean


def _checked(limit: int) -> int:
    if not 1 <= limit <= LIMIT_MAX:
        raise typer.BadParameter(f"{limit} is out of range; ask for 1 to {LIMIT_MAX}", param_hint="--limit")
    return limit


def _pair(attribute: str) -> tuple[str, str]:
    name, colon, value = attribute.partition(":")
    if not name or not colon:
        raise typer.BadParameter(
            f"{attribute!r} is no attribute; write its name and value, as in customer:c9",
            param_hint="--attribute",
        )
    return name, value


def _cursor(key: int) -> str:
    """Opaque on purpose: what a page ends with is the store's business."""
    return base64.urlsafe_b64encode(b"task %d" % key).decode().rstrip("=")


def _key(cursor: str) -> int:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        word, number = text.split(" ")
        key = int(number)
    except (binascii.Error, ValueError):
        word, key = "", 0
    if word != "task" or not 0 < key <= _KEY_MAX:
        raise typer.BadParameter(
            f'{cursor!r} is no cursor; take "next" of the page before', param_hint="--cursor"
        )
    return key
