"""``backstay workflows``: who runs which, and how to hold one back."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from backstay.cli import holding
from backstay.cli.access import JsonOption, StoreOption, UrlOption, ask
from backstay.cli.arguments import ReasonOption
from backstay.cli.render import show_page
from backstay.cli.tables import workflow_table
from backstay.views import Page

commands: Final = typer.Typer(
    help="See which workflows run where; hold one back.", no_args_is_help=True, pretty_exceptions_enable=False
)

WorkflowArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the workflow.", show_default=False)
]


@commands.command("ls")
def ls(store: StoreOption = None, url: UrlOption = None, json: JsonOption = False) -> None:
    """List the workflows that live processes run, and those that are held back."""
    workflows = ask(store, url, lambda desk: desk.workflows())
    show_page(Page(workflows), json=json, table=workflow_table, nothing="no live process runs a workflow")


@commands.command("pause")
def pause(
    name: WorkflowArgument,
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Claim none of its tasks any more, undos as well; those in hand go on."""
    holding.regulate(
        store,
        url,
        lambda desk: desk.pause_workflow(name, reason=reason),
        json=json,
        said=holding.paused("workflow", name),
    )


@commands.command("resume")
def resume(
    name: WorkflowArgument,
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Let it go on."""
    holding.regulate(
        store,
        url,
        lambda desk: desk.resume_workflow(name, reason=reason),
        json=json,
        said=holding.resumed("workflow", name),
    )
