"""Agents and workflows: how each stands in every process, and what holds them back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from backstay.console.questions import Act, act_in, asked
from backstay.console.visits import Visit, moved, reason_in
from backstay.domain.control import Subject
from backstay.domain.target import control_target
from backstay.operating import Operator
from backstay.views import AgentView, WorkflowView

LOOKED_AT_EVERY: Final = timedelta(seconds=2)

#: In the query of a question that was asked on the page of the agent itself.
_AT_PAGE: Final = "page"


#: Done to the agent or workflow of that name, for a reason.
Done = Callable[[Operator, str, str | None], Awaitable[object]]

ACTS: Final[Mapping[str, Act[Done]]] = {
    "pause": Act(
        name="Pause",
        question="Pause agent {name}?",
        says="None of its steps begins any more, in any process. Those at work may end.",
        done=lambda client, name, reason: client.pause_agent(name, reason=reason),
    ),
    "resume": Act(
        name="Resume",
        question="Let agent {name} go on?",
        says="Its steps begin again; tasks that were parked because of it are taken up.",
        done=lambda client, name, reason: client.resume_agent(name, reason=reason),
    ),
    "open": Act(
        name="Hold open",
        question="Hold the breaker of {name} open?",
        says="None of its steps begins, whatever its service does, until somebody changes that.",
        done=lambda client, name, reason: client.force_breaker(name, "open", reason=reason),
    ),
    "closed": Act(
        name="Hold closed",
        question="Hold the breaker of {name} closed?",
        says="Its steps begin even while its service fails, until somebody changes that.",
        done=lambda client, name, reason: client.force_breaker(name, "closed", reason=reason),
    ),
    "auto": Act(
        name="Leave to itself",
        question="Leave the breaker of {name} to itself?",
        says="It opens and closes again by what its service does.",
        done=lambda client, name, reason: client.force_breaker(name, "auto", reason=reason),
    ),
}

WORKFLOW_ACTS: Final[Mapping[str, Act[Done]]] = {
    "pause": Act(
        name="Pause",
        question="Pause workflow {name}?",
        says="None of its tasks is claimed any more, undos as well. Those in hand go on.",
        done=lambda client, name, reason: client.pause_workflow(name, reason=reason),
    ),
    "resume": Act(
        name="Resume",
        question="Let workflow {name} go on?",
        says="Its tasks are claimed again.",
        done=lambda client, name, reason: client.resume_workflow(name, reason=reason),
    ),
}


class Button(msgspec.Struct, frozen=True):
    name: str
    path: str


def buttons(agent: AgentView, *, at_page: bool = False) -> list[Button]:
    """What would change something about how the agent stands; one comes back to its page, or to all."""
    back = f"?{_AT_PAGE}=1" if at_page else ""
    acts = ["resume" if agent.paused else "pause"]
    acts += [position for position in ("open", "closed") if agent.forced_breaker != position]
    acts += ["auto"] if agent.forced_breaker else []
    return [Button(ACTS[act].name, f"/agents/{quote(agent.name)}/do/{act}{back}") for act in acts]


def workflow_button(workflow: WorkflowView) -> Button:
    act = "resume" if workflow.paused else "pause"
    return Button(WORKFLOW_ACTS[act].name, f"/agents/workflows/{quote(workflow.name)}/do/{act}")


async def show(visit: Visit) -> Response:
    if visit.wants_events:
        return visit.live(lambda: _part(visit), about="agents", every=LOOKED_AT_EVERY)
    part = await _part(visit)
    return visit.page("agents.html", part=part, seen=visit.mark(part))


async def _part(visit: Visit) -> str:
    agents = await visit.client.agents()
    return visit.part(
        "parts/agents.html",
        agents=agents,
        workflows=await visit.client.workflows(),
        instances=await visit.client.instances(),
        buttons=buttons,
        workflow_button=workflow_button,
    )


async def ask(visit: Visit) -> Response:
    return await _asked(visit, Subject.AGENT, visit.names["name"], act_in(visit, ACTS), back=_back(visit))


async def do(visit: Visit) -> Response:
    await act_in(visit, ACTS).done(visit.client, visit.names["name"], reason_in(visit.form))
    return moved(_back(visit))


def _back(visit: Visit) -> str:
    return f"/agents/{quote(visit.names['name'])}" if _AT_PAGE in visit.query else "/agents"


async def ask_of_workflow(visit: Visit) -> Response:
    act = act_in(visit, WORKFLOW_ACTS)
    return await _asked(visit, Subject.WORKFLOW, visit.names["workflow"], act, back="/agents")


async def do_to_workflow(visit: Visit) -> Response:
    act = act_in(visit, WORKFLOW_ACTS)
    await act.done(visit.client, visit.names["workflow"], reason_in(visit.form))
    return moved("/agents")


async def _asked(visit: Visit, subject: Subject, name: str, act: Act[Done], *, back: str) -> Response:
    title, target = act.question.format(name=name), control_target(subject, name)
    return await asked(visit, title, says=act.says, button=act.name, target=target, back=back)
