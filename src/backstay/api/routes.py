"""The table: everything that can be asked for, who may, and what may come of it."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Final

from backstay.api import documents, events, health, metrics, operators, records, tasks
from backstay.api.problems import DEAF, NOT_READY, TOO_MANY_WATCHERS
from backstay.api.routing import Route
from backstay.domain.access import Role
from backstay.errors import (
    Conflict,
    IdConflict,
    IllegalMove,
    Overloaded,
    PayloadTooLarge,
    UnknownAgent,
    UnknownAlert,
    UnknownStep,
    UnknownTask,
    UnknownToken,
    UnknownWorkflow,
)

_open = partial(Route, method="GET", role=None)
_get = partial(Route, method="GET", role=Role.READ)
_post = partial(Route, method="POST", role=Role.OPERATE)

_SUBMITTING: Final = (UnknownWorkflow, IdConflict, PayloadTooLarge, Overloaded)
_MOVING: Final = (UnknownTask, IllegalMove)

ROUTES: Final[tuple[Route, ...]] = (
    # Tasks
    _post(
        path="/v1/tasks",
        handler=tasks.submit_task,
        summary="Enter a task; it is durable once this is answered",
        role=Role.SUBMIT,
        statuses=(HTTPStatus.ACCEPTED,),
        problems=_SUBMITTING,
        headers=(tasks.IDEMPOTENCY_KEY,),
    ),
    _get(path="/v1/tasks", handler=tasks.list_tasks, summary="List tasks, newest first"),
    _get(path="/v1/tasks/{id}", handler=tasks.get_task, summary="Look at a task", problems=(UnknownTask,)),
    Route(
        method="PUT",
        path="/v1/tasks/{id}",
        handler=tasks.put_task,
        summary="Enter a task under this id",
        role=Role.SUBMIT,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        problems=_SUBMITTING,
    ),
    _get(
        path="/v1/tasks/{id}/steps",
        handler=tasks.list_steps,
        summary="List the steps of a task in the order in which they began",
        problems=(UnknownTask,),
    ),
    _get(
        path="/v1/tasks/{id}/why",
        handler=tasks.explain_task,
        summary="What a task waits for, and what would move it",
        problems=(UnknownTask,),
    ),
    _get(
        path="/v1/tasks/{id}/events",
        handler=events.watch_task,
        summary="Watch a task: server-sent events named task, step and, once it has ended, end",
        problems=(UnknownTask, TOO_MANY_WATCHERS),
    ),
    _get(
        path="/v1/tasks/{id}/undo",
        handler=tasks.preview_undo,
        summary="What an undo of a task would do now",
        problems=(UnknownTask,),
    ),
    _post(
        path="/v1/tasks/{id}/undo",
        handler=tasks.undo_task,
        summary="Undo what a task did",
        problems=_MOVING,
    ),
    _post(
        path="/v1/tasks/{id}/cancel",
        handler=tasks.cancel_task,
        summary="Stop a task, and undo what it did",
        problems=_MOVING,
    ),
    _post(
        path="/v1/tasks/{id}/resubmit",
        handler=tasks.resubmit_task,
        summary="Let a stopped task go on where it failed, or begin anew",
        problems=_MOVING,
    ),
    _post(
        path="/v1/tasks/{id}/signal/{name}",
        handler=tasks.signal_task,
        summary="Tell a task something: the body is the payload",
        problems=(*_MOVING, PayloadTooLarge),
        headers=(tasks.SIGNAL_KEY,),
    ),
    _post(
        path="/v1/tasks/{id}/steps/{key}/complete",
        handler=tasks.complete_step,
        summary="Record by hand a step's result, or that its undo has been done",
        problems=(*_MOVING, UnknownStep, PayloadTooLarge),
    ),
    # Agents, workflows, the supervisor
    _get(path="/v1/agents", handler=operators.list_agents, summary="List agents and how they stand"),
    _post(
        path="/v1/agents/{name}/pause",
        handler=operators.pause_agent,
        summary="Begin no more steps of an agent",
        problems=(UnknownAgent,),
    ),
    _post(
        path="/v1/agents/{name}/resume",
        handler=operators.resume_agent,
        summary="Let an agent go on",
        problems=(UnknownAgent,),
    ),
    _post(
        path="/v1/agents/{name}/breaker",
        handler=operators.set_breaker,
        summary="Hold the breaker of an agent open or closed, or leave it to itself again",
        problems=(UnknownAgent,),
    ),
    _get(path="/v1/workflows", handler=operators.list_workflows, summary="List workflows and who runs them"),
    _post(
        path="/v1/workflows/{name}/pause",
        handler=operators.pause_workflow,
        summary="Claim no more tasks of a workflow",
        problems=(UnknownWorkflow,),
    ),
    _post(
        path="/v1/workflows/{name}/resume",
        handler=operators.resume_workflow,
        summary="Let a workflow go on",
        problems=(UnknownWorkflow,),
    ),
    _get(
        path="/v1/supervisor",
        handler=operators.get_supervisor,
        summary="Who supervises, and what came of it last",
    ),
    _post(
        path="/v1/supervisor/run",
        handler=operators.run_supervisor,
        summary="Run one round of the supervisor now, if this process leads",
    ),
    # Alerts, the audit trail, tokens
    _get(path="/v1/alerts", handler=records.list_alerts, summary="List alerts, newest first"),
    _post(
        path="/v1/alerts/{id}/acknowledge",
        handler=records.acknowledge_alert,
        summary="Take an alert up; the first who does stays named",
        problems=(UnknownAlert,),
    ),
    _get(path="/v1/audit", handler=records.list_audit, summary="What operators did, newest first"),
    _get(
        path="/v1/tokens",
        handler=records.list_tokens,
        summary="List tokens, without their secrets",
        role=Role.ADMIN,
    ),
    _post(
        path="/v1/tokens",
        handler=records.create_token,
        summary="Make a token; its secret is told this once",
        role=Role.ADMIN,
        statuses=(HTTPStatus.CREATED,),
        problems=(Conflict,),
    ),
    Route(
        method="DELETE",
        path="/v1/tokens/{name}",
        handler=records.revoke_token,
        summary="Revoke a token",
        role=Role.ADMIN,
        statuses=(HTTPStatus.NO_CONTENT,),
        problems=(UnknownToken,),
    ),
    # About this process, and this interface
    _open(path="/healthz", handler=health.get_health, summary="Whether every role works", problems=(DEAF,)),
    _open(
        path="/readyz",
        handler=health.get_readiness,
        summary="Whether work should be sent here",
        problems=(NOT_READY,),
    ),
    _get(path="/metrics", handler=metrics.get_metrics, summary="Counters, in the format of Prometheus"),
    _get(path="/openapi.json", handler=documents.get_document, summary="This interface, for programs"),
    _get(path="/docs", handler=documents.get_page, summary="This interface, for people"),
)
