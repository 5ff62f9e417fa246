"""``backstay store``: create or upgrade a store, and see how it stands. Always the store, never a server."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import typer

from backstay.cli import store_care
from backstay.cli.access import JsonOption, StoreOption
from backstay.cli.render import console, print_json, say
from backstay.cli.store_keys import rotate_key
from backstay.cli.tables import fact_grid, supervisor_facts
from backstay.client import Client
from backstay.clock import SystemClock
from backstay.definitions.registry import Registry
from backstay.domain.states import TaskState
from backstay.errors import StoreUnavailable
from backstay.runtime import connected, open_store
from backstay.settings import Settings
from backstay.sql.migrations import load_migrations
from backstay.store.base import TaskFilter
from backstay.store.checking import Fault
from backstay.store.records import AlertFilter
from backstay.views import SupervisorView

# What needs a person is counted no further than this.
COUNTED_MAX: Final = 1_000

# The exit code where something breaks a rule.
FAULTY: Final = 1

# Where the migrations of a backend are.
_PACKAGES: Final = {"sqlite": "backstay.store.sqlite", "postgresql": "backstay.store.postgres"}

commands: Final = typer.Typer(
    help="Create, upgrade and check the state store itself.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Which store it is. Whoever opens one brings its schema up to date, so it has this release's."""

    store: str
    backend: str
    schema: int


class Migrated(Place, frozen=True, kw_only=True):
    """What ``store migrate`` answers."""

    created: bool


class Checked(Place, frozen=True, kw_only=True):
    """What ``store check`` answers. The counts end at COUNTED_MAX."""

    instances: list[str]
    supervisor: SupervisorView
    open_alerts: int
    tasks_in_error: int
    tasks_in_undo_failed: int
    # What breaks a rule that nothing may break.
    ok: bool
    faults: list[Fault]


commands.command("prune")(store_care.prune)
commands.command("backup")(store_care.backup)


@commands.command("migrate")
def migrate(store: StoreOption = None, json: JsonOption = False) -> None:
    """Create the store, or bring its schema up to date. Every process does so when it starts."""
    settings = Settings.load({"store": store})
    created = asyncio.run(_opened(settings))
    done = Migrated(**_place(settings), created=created)
    if json:
        print_json(done)
    elif created:
        say(f"created the store {done.store} with schema {done.schema}")
    else:
        say(f"the store {done.store} is up to date with schema {done.schema}")


commands.command("rotate-key")(rotate_key)


@commands.command("check")
def check(store: StoreOption = None, json: JsonOption = False) -> None:
    """Say who works on the store, what needs a person, and whether everything in it is as it must be."""
    settings = Settings.load({"store": store})
    checked = asyncio.run(_checked(settings, store_care.checkup(settings)))
    if json:
        print_json(checked)
    else:
        console().print(fact_grid(_facts(checked)))
        store_care.show(checked.faults)
    if not checked.ok:
        raise typer.Exit(FAULTY)


async def _opened(settings: Settings) -> bool:
    """Open the store, making it if it is not there; whether it was not."""
    store = open_store(settings)
    created = False
    try:
        await store.open(must_exist=True)
    except StoreUnavailable:
        # It is not there, or cannot be reached: then this raises again, and says why.
        await store.open()
        created = True
    await store.close()
    return created


async def _checked(settings: Settings, faults: list[Fault]) -> Checked:
    async with connected(Registry(), settings, must_exist=True) as client:
        alerts = await client.alerts(AlertFilter(open_only=True, limit=COUNTED_MAX))
        return Checked(
            **_place(settings),
            instances=sorted(one.id for one in await client.instances()),
            supervisor=await client.supervisor(),
            open_alerts=len(alerts.items),
            tasks_in_error=await _number(client, TaskState.ERROR),
            tasks_in_undo_failed=await _number(client, TaskState.UNDO_FAILED),
            ok=not faults,
            faults=faults,
        )


async def _number(client: Client, state: TaskState) -> int:
    return len((await client.tasks(TaskFilter(states=(state,), limit=COUNTED_MAX))).items)


def _place(settings: Settings) -> dict[str, Any]:
    url = urlsplit(settings.store)
    # Without user, password and options: any of them may be a secret.
    shown = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
    backend = "sqlite" if url.scheme == "sqlite" else "postgresql"
    return {"store": shown, "backend": backend, "schema": len(load_migrations(_PACKAGES[backend]))}


def _facts(checked: Checked) -> list[tuple[str, str]]:
    return [
        ("store", checked.store),
        ("backend", checked.backend),
        ("schema", str(checked.schema)),
        ("processes", ", ".join(checked.instances) or "none is live"),
        *supervisor_facts(checked.supervisor, now=SystemClock().now()),
        ("open alerts", _counted(checked.open_alerts)),
        ("tasks in error", _counted(checked.tasks_in_error)),
        ("undo failed", _counted(checked.tasks_in_undo_failed)),
    ]


def _counted(number: int) -> str:
    return str(number) if number < COUNTED_MAX else f"{COUNTED_MAX:,} or more"
