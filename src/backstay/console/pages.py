"""The table of pages: what is at which path, and who may. Whoever adds a page adds its lines here."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from backstay.console import agent, agents, audit, dials, moves, overview, sign_in, supervisor, task, tasks
from backstay.console.visits import Handler
from backstay.domain.access import Role


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    path: str
    handler: Handler
    method: str = "GET"
    # What a visitor must be allowed; ``None``: nothing at all.
    role: Role | None = Role.READ


class Door(msgspec.Struct, frozen=True):
    """A page that is in the navigation."""

    path: str
    name: str


NAVIGATION: Final = (
    Door("/", "Overview"),
    Door("/tasks", "Tasks"),
    Door("/agents", "Agents"),
    Door("/supervisor", "Supervisor"),
    Door("/audit", "Audit"),
)

#: Beside these, where the application has dials.
DIALS: Final = Door(dials.PATH, "Dials")

_ask = partial(Page, role=Role.OPERATE)
_do = partial(Page, method="POST", role=Role.OPERATE)

_MOVE: Final = "/tasks/{id}/do/{move}"
_AGENT: Final = "/agents/{name}/do/{act}"
_WORKFLOW: Final = "/agents/workflows/{workflow}/do/{act}"
_ALERT: Final = "/supervisor/alerts/{id}/acknowledge"
_ROUND: Final = "/supervisor/run"
_DIAL: Final = f"{dials.PATH}/{{name}}/turn"

PAGES: Final = (
    Page(path="/", handler=overview.show),
    Page(path="/tasks", handler=tasks.show),
    Page(path="/tasks/{id}", handler=task.show),
    Page(path="/tasks/{id}/steps/{key}", handler=task.show_step),
    _ask(path=_MOVE, handler=moves.ask),
    _do(path=_MOVE, handler=moves.do),
    Page(path="/agents", handler=agents.show),
    Page(path="/agents/{name}", handler=agent.show),
    _ask(path=_AGENT, handler=agents.ask),
    _do(path=_AGENT, handler=agents.do),
    _ask(path=_WORKFLOW, handler=agents.ask_of_workflow),
    _do(path=_WORKFLOW, handler=agents.do_to_workflow),
    Page(path="/supervisor", handler=supervisor.show),
    _ask(path=_ALERT, handler=supervisor.ask_to_acknowledge),
    _do(path=_ALERT, handler=supervisor.acknowledge),
    _ask(path=_ROUND, handler=supervisor.ask_to_run),
    _do(path=_ROUND, handler=supervisor.run),
    Page(path="/audit", handler=audit.show),
    Page(path=dials.PATH, handler=dials.show),
    _ask(path=_DIAL, handler=dials.ask),
    _do(path=_DIAL, handler=dials.turn),
    Page(path=sign_in.SIGN_IN, handler=sign_in.show, role=None),
    Page(path=sign_in.SIGN_IN, handler=sign_in.sign_in, method="POST", role=None),
    Page(path=sign_in.SIGN_OUT, handler=sign_in.sign_out, method="POST", role=None),
)
