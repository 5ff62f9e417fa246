"""``backstay submit``: hand in a task, and wait for its result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any, Final

import msgspec
import typer

from backstay.cli.access import Desk, JsonOption, StoreOption, UrlOption, server_at
from backstay.cli.arguments import json_value, pair
from backstay.cli.remote import Remote
from backstay.cli.render import note, print_json, say
from backstay.cli.target import load_app
from backstay.clock import SystemClock
from backstay.definitions.registry import Registry
from backstay.domain.states import TaskState
from backstay.domain.task import NewTask
from backstay.errors import TaskFailed, UnknownWorkflow
from backstay.runtime import connected, open_store
from backstay.settings import Settings
from backstay.submit import Door
from backstay.views import Task, task_view

# How long a task may rest before we look whether anybody is there to run it, and then how often.
PATIENCE_SECONDS: Final = 1.0


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A task as it was asked for."""

    workflow: str
    input: Any
    id: str | None
    complete_by: str | None
    attributes: dict[str, str]


class Entered(msgspec.Struct, frozen=True):
    """A task that is recorded, and whether this command did that."""

    task: Task
    created: bool


def submit(
    *,
    target: Annotated[
        str,
        typer.Argument(
            metavar="module:app",
            help="The application, found from here; not looked for with --url.",
            show_default=False,
        ),
    ],
    workflow: Annotated[
        str, typer.Argument(metavar="WORKFLOW", help="The workflow's name.", show_default=False)
    ],
    input: Annotated[
        str,
        typer.Argument(
            metavar="JSON",
            help="Its argument, or an object of arguments when it has several; - reads standard input.",
            show_default=False,
        ),
    ],
    id: Annotated[
        str | None,
        typer.Option("--id", help="The task's id. Submitting it again with the same input changes nothing."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the result and print it.")] = False,
    complete_by: Annotated[
        str | None,
        typer.Option("--complete-by", metavar="WHEN", help="Its hard end: 30s from now, or an instant."),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option("--attribute", metavar="NAME=VALUE", help="Something to find it by; may be repeated."),
    ] = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Submit a task. It is recorded, and run by the processes that run the application."""
    wish = Wish(
        workflow=workflow,
        input=json_value(input, example='{"order": 7}'),
        id=id,
        complete_by=complete_by,
        attributes=_attributes(attribute or []),
    )
    server = server_at(store, url)
    if server is None:
        entrance = _into_store(wish, load_app(target).registry, Settings.load({"store": store}))
    else:
        entrance = _by_server(wish, server)
    asyncio.run(_submit(entrance, wait=wait, json=json))


async def _submit(
    entrance: AbstractAsyncContextManager[tuple[Desk, Entered]], *, wait: bool, json: bool
) -> None:
    async with entrance as (desk, entered):
        if wait:
            await _show_result(desk, entered, json=json)
        elif json:
            print_json(entered.task)
        else:
            say(_told(entered))


# The way in


@asynccontextmanager
async def _into_store(
    wish: Wish, registry: Registry, settings: Settings
) -> AsyncIterator[tuple[Desk, Entered]]:
    store = open_store(settings)
    clock = SystemClock()
    door = Door(store, registry, settings=settings, clock=clock)
    # Everything is checked before the store is touched: a mistake does not even create its file.
    new = _checked(wish, door)
    async with connected(registry, settings, store=store, clock=clock) as client:
        submitted = await door.submit(new)
        yield client, Entered(task_view(submitted.task), submitted.created)


def _checked(wish: Wish, door: Door) -> NewTask:
    try:
        return door.new_task(
            wish.workflow,
            (wish.input,),
            id=wish.id,
            complete_by=wish.complete_by,
            attributes=wish.attributes,
        )
    except UnknownWorkflow as error:
        # The application does not have it: that is no fact of the store.
        raise typer.BadParameter(str(error), param_hint="WORKFLOW") from error


@asynccontextmanager
async def _by_server(wish: Wish, server: Remote) -> AsyncIterator[tuple[Desk, Entered]]:
    async with server:
        task, created = await server.submit(
            wish.workflow,
            wish.input,
            id=wish.id,
            complete_by=wish.complete_by,
            attributes=wish.attributes,
        )
        yield server, Entered(task, created)


# The result


async def _show_result(desk: Desk, entered: Entered, *, json: bool) -> None:
    note(_told(entered))
    task = await _settled(desk, entered.task)
    if json:
        print_json(task)
    if task.state != TaskState.PROCESSED:
        error = msgspec.to_builtins(task.error) if task.error else None
        raise TaskFailed(task.state, task.error.step if task.error else None, error)
    if not json:
        print_json(task.output)


async def _settled(desk: Desk, task: Task) -> Task:
    """The task once it ended or stopped; says once when there is nobody to run it."""
    end = asyncio.ensure_future(desk.settled(task.id))
    try:
        while not (await asyncio.wait([end], timeout=PATIENCE_SECONDS))[0]:
            if not await _is_runnable(desk, task):
                note(
                    f"no live scheduler has workflow {task.workflow!r} version {task.version};"
                    " the task is recorded and starts when one does (Ctrl-C stops only the waiting)"
                )
                break
        await end
    finally:
        end.cancel()
    return await desk.task(task.id)


async def _is_runnable(desk: Desk, task: Task) -> bool:
    return any(one.name == task.workflow and task.version in one.versions for one in await desk.workflows())


def _told(entered: Entered) -> str:
    task = entered.task
    return f"submitted {task.id}" if entered.created else f"{task.id} exists already: it is {task.state}"


def _attributes(written: list[str]) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for one in written:
        name, value = pair(one, "=")
        if name in attributes:
            raise typer.BadParameter(f"{name!r} is given twice; give it once", param_hint="--attribute")
        attributes[name] = value
    return attributes
