"""``backstay supervise``: one round of the supervisor, for cron or a job."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from backstay.cli.access import JsonOption, StoreOption, UrlOption, server_at
from backstay.cli.remote import Remote
from backstay.cli.render import console, note, print_json
from backstay.cli.tables import fact_grid, supervisor_facts
from backstay.clock import SystemClock
from backstay.runtime import supervise_once
from backstay.settings import Settings
from backstay.views import SupervisorRun


def supervise(
    *,
    once: Annotated[bool, typer.Option("--once", help="Make one round and end.")] = False,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Make one round of the supervisor: free what nobody moves, wake what is due."""
    if not once:
        raise typer.BadParameter(
            "one round is made with --once; `backstay serve --roles supervisor` makes them all the time",
            param_hint="--once",
        )
    server = server_at(store, url)
    made = supervise_once(Settings.load({"store": store})) if server is None else _at_server(server)
    done = asyncio.run(made)
    if json:
        print_json(done)
    else:
        console().print(fact_grid(supervisor_facts(done, now=SystemClock().now())))
    if not done.ran:
        note(f"{done.leader or 'another process'} leads and makes the rounds; nothing was done here")


async def _at_server(server: Remote) -> SupervisorRun:
    async with server:
        return await server.supervise()
