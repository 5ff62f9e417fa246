"""``backstay agents``: how they stand, and how to hold one back."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from backstay.cli import holding
from backstay.cli.access import JsonOption, StoreOption, UrlOption, ask
from backstay.cli.arguments import ReasonOption
from backstay.cli.render import show_page
from backstay.cli.tables import agent_table
from backstay.operating import Breaker
from backstay.views import Page

commands: Final = typer.Typer(
    help="See how agents stand; hold one back.", no_args_is_help=True, pretty_exceptions_enable=False
)


@commands.command("ls")
def ls(store: StoreOption = None, url: UrlOption = None, json: JsonOption = False) -> None:
    """List the agents of live processes, and those that are held back."""
    agents = ask(store, url, lambda desk: desk.agents())
    show_page(Page(agents), json=json, table=agent_table, nothing="no live process has an agent")


holding.add_command(
    commands,
    "pause",
    help="Begin none of its steps any more, in any process; those at work may end.",
    act=lambda desk, name, reason: desk.pause_agent(name, reason=reason),
    said="agent {name} is paused; `backstay agents resume {name}` lets it go on",
)
holding.add_command(
    commands,
    "resume",
    help="Let it go on.",
    act=lambda desk, name, reason: desk.resume_agent(name, reason=reason),
    said="agent {name} is not paused",
)


@commands.command("breaker")
def breaker(
    *,
    name: holding.NameArgument,
    position: Annotated[
        Breaker,
        typer.Argument(
            metavar="open|closed|auto",
            help="Held so in every process; or left to itself.",
            show_default=False,
        ),
    ],
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Hold its breaker open or closed, or leave it to itself again."""
    where = "left to itself" if position == "auto" else f"held {position}"
    holding.regulate(
        store,
        url,
        lambda desk: desk.force_breaker(name, position, reason=reason),
        json=json,
        said=f"the breaker of agent {name} is {where}",
    )
