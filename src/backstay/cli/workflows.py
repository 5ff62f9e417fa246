"""``backstay workflows``: who runs which, and how to hold one back."""

from __future__ import annotations

from typing import Final

import typer

from backstay.cli import holding
from backstay.cli.access import JsonOption, StoreOption, UrlOption, ask
from backstay.cli.render import show_page
from backstay.cli.tables import workflow_table
from backstay.views import Page

commands: Final = typer.Typer(
    help="See which workflows run where; hold one back.", no_args_is_help=True, pretty_exceptions_enable=False
)


@commands.command("ls")
def ls(store: StoreOption = None, url: UrlOption = None, json: JsonOption = False) -> None:
    """List the workflows that live processes run, and those that are held back."""
    workflows = ask(store, url, lambda desk: desk.workflows())
    show_page(Page(workflows), json=json, table=workflow_table, nothing="no live process runs a workflow")


holding.add_command(
    commands,
    "pause",
    help="Claim none of its tasks any more, undos as well; those in hand go on.",
    act=lambda desk, name, reason: desk.pause_workflow(name, reason=reason),
    said="workflow {name} is paused; `backstay workflows resume {name}` lets it go on",
)
holding.add_command(
    commands,
    "resume",
    help="Let it go on.",
    act=lambda desk, name, reason: desk.resume_workflow(name, reason=reason),
    said="workflow {name} is not paused",
)
