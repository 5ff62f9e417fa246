"""The table: everything that can be asked for, who may, and what may come of it."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Final

from backstay.api import documents, events, health, metrics, operators, queues, records, streams, tasks
from backstay.api.routing import Route
from backstay.domain.access import Role
from backstay.errors import (
    Conflict,
    EventConflict,
    IdConflict,
    IllegalMove,
    LockLost,
    OffsetAhead,
    Overloaded,
    PayloadTooLarge,
    QueueFull,
    QueueNotEmpty,
    StreamFull,
    UnknownAgent,
    UnknownAlert,
    UnknownEvent,
    UnknownGroup,
    UnknownMessage,
    UnknownQueue,
    UnknownStep,
    UnknownStream,
    UnknownTask,
    UnknownToken,
    UnknownWorkflow,
)
from backstay.web.problems import DEAF, NO_GOOD_LINE, NOT_READY, TOO_MANY_WATCHERS

_open = partial(Route, method="GET", role=None)
_get = partial(Route, method="GET", role=Role.READ)
_post = partial(Route, method="POST", role=Role.OPERATE)

_SUBMITTING: Final = (UnknownWorkflow, IdConflict, PayloadTooLarge, Overloaded)
_MOVING: Final = (UnknownTask, IllegalMove)

_STREAM: Final = "/v1/streams/{stream}"
_QUEUE: Final = "/v1/queues/{queue}"
_MESSAGE: Final = f"{_QUEUE}/messages/{{id}}"
_put = partial(Route, method="PUT", role=Role.OPERATE, statuses=(HTTPStatus.CREATED, HTTPStatus.OK))
_delete = partial(Route, method="DELETE", role=Role.OPERATE)
_send = partial(Route, method="POST", role=Role.SUBMIT, statuses=(HTTPStatus.CREATED,))
_settle = partial(
    Route, method="POST", role=Role.SUBMIT, statuses=(HTTPStatus.NO_CONTENT,), problems=(LockLost,)
)

ROUTES: Final[tuple[Route, ...]] = (
    # Tasks
    _post(
        path="/v1/tasks",
        handler=tasks.submit_task,
        summary="Enter a task; it is durable once this is answered",
        role=Role.SUBMIT,
        statuses=(HTTPStatus.ACCEPTED,),
        problems=_SUBMITTING,
        headers=(tasks.IDEMPOTENCY_KEY, tasks.TRACE),
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
        headers=(tasks.TRACE,),
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
    # Queues and topics
    _get(path="/v1/queues", handler=queues.list_queues, summary="List queues, by their names"),
    _get(
        path=_QUEUE,
        handler=queues.get_queue,
        summary="Look at a queue: its terms, and how many messages are in it",
        problems=(UnknownQueue,),
    ),
    _put(path=_QUEUE, handler=queues.put_queue, summary="Make a queue, or give it other terms"),
    _send(
        path=f"{_QUEUE}/messages",
        handler=queues.send_message,
        summary="Send a message; it is durable once this is answered",
        problems=(UnknownQueue, PayloadTooLarge, QueueFull),
    ),
    _get(
        path=f"{_QUEUE}/messages",
        handler=queues.peek_messages,
        summary="Look at what would be received next; nothing is locked",
        problems=(UnknownQueue,),
    ),
    _post(
        path=f"{_QUEUE}/receive",
        handler=queues.receive_messages,
        summary="Receive messages, each locked until it is settled or its lock runs out",
        role=Role.SUBMIT,
        problems=(UnknownQueue, TOO_MANY_WATCHERS),
    ),
    _post(
        path=f"{_QUEUE}/receive-deferred",
        handler=queues.receive_deferred,
        summary="Receive messages that were deferred, by their numbers",
        role=Role.SUBMIT,
        problems=(UnknownQueue,),
    ),
    _settle(
        path=f"{_MESSAGE}/complete",
        handler=queues.complete_message,
        summary="Say that a message is done",
    ),
    _settle(
        path=f"{_MESSAGE}/abandon",
        handler=queues.abandon_message,
        summary="Say that a message failed: it is received again, or set aside after its last delivery",
    ),
    _settle(
        path=f"{_MESSAGE}/defer",
        handler=queues.defer_message,
        summary="Put a message off: it is received by its number only",
    ),
    _settle(
        path=f"{_MESSAGE}/renew",
        handler=queues.renew_message,
        summary="Keep a message; the header Backstay-Locked-Until says until when",
    ),
    _settle(
        path=f"{_MESSAGE}/rewrite",
        handler=queues.rewrite_message,
        summary="Let a message hold something else, and keep it, as with renew",
        problems=(LockLost, PayloadTooLarge),
    ),
    _settle(
        path=f"{_MESSAGE}/dead-letter",
        handler=queues.dead_letter_message,
        summary="Set a message aside, with a reason",
    ),
    _get(
        path=f"{_QUEUE}/sessions",
        handler=queues.list_sessions,
        summary="List sessions, and how many messages wait in each",
        problems=(UnknownQueue,),
    ),
    _get(
        path=f"{_QUEUE}/dead",
        handler=queues.list_dead,
        summary="List what was set aside, oldest first",
        problems=(UnknownQueue,),
    ),
    _post(
        path=f"{_QUEUE}/dead/resubmit",
        handler=queues.resubmit_all_dead,
        summary="Put dead letters back into their queue, up to 1,000 of them",
        problems=(UnknownQueue,),
    ),
    _post(
        path=f"{_QUEUE}/dead/{{id}}/resubmit",
        handler=queues.resubmit_dead,
        summary="Put a dead letter back into its queue",
        problems=(UnknownQueue, UnknownMessage),
    ),
    _delete(
        path=f"{_QUEUE}/dead",
        handler=queues.discard_all_dead,
        summary="Drop dead letters for good, up to 5,000 of them",
        problems=(UnknownQueue,),
    ),
    _delete(
        path=f"{_QUEUE}/dead/{{id}}",
        handler=queues.discard_dead,
        summary="Drop a dead letter for good",
        problems=(UnknownQueue, UnknownMessage),
    ),
    _delete(
        path=_QUEUE,
        handler=queues.delete_queue,
        summary="Delete a queue that is empty, or, with force, one with the messages in it",
        problems=(UnknownQueue, QueueNotEmpty),
    ),
    _get(path="/v1/topics", handler=queues.list_topics, summary="List topics and their subscriptions"),
    _put(path="/v1/topics/{topic}", handler=queues.put_topic, summary="Make a topic"),
    _put(
        path="/v1/topics/{topic}/subscriptions/{name}",
        handler=queues.put_subscription,
        summary="Make a subscription, which is a queue, or change which messages it gets",
        problems=(UnknownQueue,),
    ),
    _delete(
        path="/v1/topics/{topic}/subscriptions/{name}",
        handler=queues.delete_subscription,
        summary="Delete a subscription with its queue, under the same terms as a queue",
        problems=(UnknownQueue, QueueNotEmpty),
    ),
    _send(
        path="/v1/topics/{topic}/messages",
        handler=queues.send_to_topic,
        summary="Send a message to every subscription that matches",
        problems=(UnknownQueue, PayloadTooLarge, QueueFull),
    ),
    # Streams
    _get(path="/v1/streams", handler=streams.list_streams, summary="List streams, by their names"),
    _get(
        path=_STREAM,
        handler=streams.get_stream,
        summary="Look at a stream: its partitions, and how far each group has got in them",
        problems=(UnknownStream,),
    ),
    _put(
        path=_STREAM,
        handler=streams.put_stream,
        summary="Make a stream, or give it other terms; the number of its partitions stays",
        problems=(Conflict,),
    ),
    _post(
        path=f"{_STREAM}/events",
        handler=streams.append_events,
        summary="Append an event, or lines of events; they are durable once this is answered",
        role=Role.SUBMIT,
        statuses=(HTTPStatus.ACCEPTED,),
        problems=(UnknownStream, EventConflict, PayloadTooLarge, StreamFull, NO_GOOD_LINE),
        headers=(streams.EVENT_KEY, streams.EVENT_ID),
    ),
    _get(
        path=f"{_STREAM}/partitions/{{partition}}/events",
        handler=streams.list_events,
        summary="Read events of a partition; nothing moves by that",
        problems=(UnknownStream, OffsetAhead),
    ),
    _delete(
        path=f"{_STREAM}/groups/{{group}}",
        handler=streams.forget_group,
        summary="Forget how far a group that nobody reads for has got, and what it set aside",
        problems=(UnknownGroup, Conflict),
    ),
    _get(
        path=f"{_STREAM}/quarantine",
        handler=streams.list_quarantine,
        summary="List events that a group could not process, oldest first",
        problems=(UnknownStream,),
    ),
    _post(
        path=f"{_STREAM}/quarantine/resubmit",
        handler=streams.resubmit_all_quarantined,
        summary="Have events in quarantine processed again, up to 1,000 of them",
        problems=(UnknownStream,),
    ),
    _post(
        path=f"{_STREAM}/quarantine/{{id}}/resubmit",
        handler=streams.resubmit_quarantined,
        summary="Have an event in quarantine processed again",
        problems=(UnknownStream, UnknownEvent),
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
