"""Hold back a workflow or an agent, and tell how it stands then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from backstay.cli.access import Desk, JsonOption, StoreOption, UrlOption, ask
from backstay.cli.arguments import ReasonOption
from backstay.cli.render import print_json, say
from backstay.views import AgentView, WorkflowView

View = AgentView | WorkflowView
Act = Callable[[Desk, str, str | None], Awaitable[View]]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Its name.", show_default=False)]


def add_command(commands: typer.Typer, verb: str, *, help: str, act: Act, said: str) -> None:
    """Add a command that does ``act`` to whatever is named; ``{name}`` in ``said`` stands for that."""

    @commands.command(verb, help=help)
    def command(
        name: NameArgument,
        reason: ReasonOption = None,
        store: StoreOption = None,
        url: UrlOption = None,
        json: JsonOption = False,
    ) -> None:
        regulate(
            store, url, lambda desk: act(desk, name, reason), json=json, said=said.replace("{name}", name)
        )


def regulate(
    store: str | None,
    url: str | None,
    act: Callable[[Desk], Awaitable[View]],
    *,
    json: bool,
    said: str,
) -> None:
    """Do it, and tell: in a sentence, or as JSON how the workflow or the agent stands now."""
    view = ask(store, url, act)
    if json:
        print_json(view)
    else:
        say(said)
