"""``backstay submit``: hand in a task, and wait for its result."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any, Final

import msgspec
import typer

from backstay.cli.access import JsonOption, StoreOption
from backstay.cli.render import note, print_json, visible
from backstay.cli.target import load_app
from backstay.client import Client
from backstay.clock import Clock, SystemClock
from backstay.definitions.registry import Registry
from backstay.domain.lease import is_stale
from backstay.domain.states import TaskState
from backstay.domain.task import NewTask
from backstay.errors import TaskFailed
from backstay.runtime import connected, open_store
from backstay.settings import Settings
from backstay.store.base import Store, Submitted
from backstay.submit import Door
from backstay.views import Task, task_view

# How long a task may rest before we look whether anybody is there to run it, and then how often.
PATIENCE_SECONDS: Final = 1.0


def submit(
    *,
    target: Annotated[
        str,
        typer.Argument(metavar="module:app", help="The application, found from here.", show_default=False),
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
    json: JsonOption = False,
) -> None:
    """Submit a task. It is recorded here and run by the processes that run the application."""
    value = _value(input)
    attributes = _attributes(attribute or [])
    registry = load_app(target).registry
    settings = Settings.load({"store": store})
    submission = Submission(registry, settings, SystemClock())
    # Everything is checked before the store is touched: a mistake does not even create its file.
    new = submission.door.new_task(workflow, (value,), id=id, complete_by=complete_by, attributes=attributes)
    asyncio.run(submission.make(new, wait=wait, json=json))


class Submission:
    """One task on its way into a store."""

    def __init__(self, registry: Registry, settings: Settings, clock: Clock) -> None:
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._store: Store = open_store(settings)
        self.door = Door(self._store, registry, settings=settings, clock=clock)

    async def make(self, new: NewTask, *, wait: bool, json: bool) -> None:
        async with connected(self._registry, self._settings, store=self._store, clock=self._clock) as client:
            submitted = await self.door.submit(new)
            if wait:
                await self._show_result(client, submitted, json=json)
            elif json:
                print_json(task_view(submitted.task))
            else:
                typer.echo(_told(submitted))

    async def _show_result(self, client: Client, submitted: Submitted, *, json: bool) -> None:
        note(_told(submitted))
        task = await self._settled(client, task_view(submitted.task))
        if json:
            print_json(task)
        if task.state != TaskState.PROCESSED:
            error = msgspec.to_builtins(task.error) if task.error else None
            raise TaskFailed(task.state, task.error.step if task.error else None, error)
        if not json:
            print_json(task.output)

    async def _settled(self, client: Client, task: Task) -> Task:
        """The task once it ended or stopped; says once when there is nobody to run it."""
        end = asyncio.ensure_future(client.settled(task.id))
        try:
            while not (await asyncio.wait([end], timeout=PATIENCE_SECONDS))[0]:
                if not await self._runnable(task):
                    note(
                        f"no live scheduler has workflow {task.workflow!r} version {task.version};"
                        " the task is recorded and starts when one does (Ctrl-C stops only the waiting)"
                    )
                    break
            return task_view(await end)
        finally:
            end.cancel()

    async def _runnable(self, task: Task) -> bool:
        now = self._clock.now()
        return any(
            (task.workflow, task.version) in one.runs
            for one in await self._store.instances()
            if one.live and not is_stale(one.heartbeat_at, lease=self._settings.lease, now=now)
        )


def _told(submitted: Submitted) -> str:
    task = submitted.task
    return f"submitted {task.id}" if submitted.created else f"{task.id} exists already: it is {task.state}"


# What arguments mean


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(sys.stdin.buffer.read() if text == "-" else text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise typer.BadParameter(
            f"{visible(str(error))}; write the input as JSON inside quotes, as in '{{\"order\": 7}}'",
            param_hint="JSON",
        ) from error


def _attributes(written: list[str]) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for pair in written:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(
                f"{pair!r} is no attribute; write its name and value, as in customer=c9",
                param_hint="--attribute",
            )
        if name in attributes:
            raise typer.BadParameter(f"{name!r} is given twice; give it once", param_hint="--attribute")
        attributes[name] = value
    return attributes
