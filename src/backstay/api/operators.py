"""Agents, workflows and the supervisor over HTTP."""

from __future__ import annotations

import msgspec

from backstay.api.calls import Call, Nothing
from backstay.api.shapes import Because, NamePath
from backstay.operating import Breaker
from backstay.views import AgentView, Page, SupervisorRun, SupervisorView, WorkflowView, supervisor_run


class SetBreaker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hold a breaker open or closed, or leave it to itself again."""

    position: Breaker
    reason: str | None = None


# Agents


async def list_agents(call: Call[Nothing, Nothing, Nothing]) -> Page[AgentView]:
    return Page(await call.client.agents())


async def pause_agent(call: Call[NamePath, Nothing, Because]) -> AgentView:
    return await call.client.pause_agent(call.path.name, reason=call.body.reason)


async def resume_agent(call: Call[NamePath, Nothing, Because]) -> AgentView:
    return await call.client.resume_agent(call.path.name, reason=call.body.reason)


async def set_breaker(call: Call[NamePath, Nothing, SetBreaker]) -> AgentView:
    body = call.body
    return await call.client.force_breaker(call.path.name, body.position, reason=body.reason)


# Workflows


async def list_workflows(call: Call[Nothing, Nothing, Nothing]) -> Page[WorkflowView]:
    return Page(await call.client.workflows())


async def pause_workflow(call: Call[NamePath, Nothing, Because]) -> WorkflowView:
    return await call.client.pause_workflow(call.path.name, reason=call.body.reason)


async def resume_workflow(call: Call[NamePath, Nothing, Because]) -> WorkflowView:
    return await call.client.resume_workflow(call.path.name, reason=call.body.reason)


# The supervisor


async def get_supervisor(call: Call[Nothing, Nothing, Nothing]) -> SupervisorView:
    return await call.client.supervisor()


async def run_supervisor(call: Call[Nothing, Nothing, Nothing]) -> SupervisorRun:
    ran = await call.service.ports.supervise()
    return supervisor_run(await call.client.supervisor(), ran=ran)
