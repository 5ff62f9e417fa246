"""Hold back a workflow or an agent, and tell how it stands then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from backstay.cli.access import Desk, ask
from backstay.cli.render import print_json, say
from backstay.views import AgentView, WorkflowView


def regulate(
    store: str | None,
    url: str | None,
    act: Callable[[Desk], Awaitable[AgentView | WorkflowView]],
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


def paused(noun: str, name: str) -> str:
    return f"{noun} {name} is paused; `backstay {noun}s resume {name}` lets it go on"


def resumed(noun: str, name: str) -> str:
    return f"{noun} {name} is not paused"
