"""Tasks over HTTP: hand them in, look at them, step in."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

import msgspec

from backstay.api.calls import Call, Header, Nothing, Reply
from backstay.api.shapes import ID_PATTERN, ITEMS_MAX, Because, Cursor, Id, Limit
from backstay.domain.states import TaskState
from backstay.domain.why import Reason
from backstay.errors import Conflict, IllegalMove, InvalidInput
from backstay.store.base import Submitted, TaskFilter
from backstay.views import Page, Step, Task, UndoPlan, task_view
from backstay.web.problems import KINDS, Refused

IDEMPOTENCY_KEY: Final = Header(
    "Idempotency-Key", "[!-~]{1,200}", "For 24 hours the same key means the same task; visible ASCII."
)
SIGNAL_KEY: Final = Header(
    "Backstay-Signal-Key", ID_PATTERN, "A signal with the same key counts once; as the parameter key."
)
TRACE: Final = Header(
    "traceparent", "[ -~]*", "W3C Trace Context: under this the task is traced, where spans are made."
)

Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class Submission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task to be entered."""

    workflow: str
    input: Any = None
    id: Id | None = None
    # An instant in RFC 3339, or a duration such as "90s".
    complete_by: str | None = None
    reply_to: str | None = None
    attributes: dict[str, str] = {}


class TaskPath(msgspec.Struct, frozen=True):
    id: Id


class StepPath(msgspec.Struct, frozen=True):
    id: Id
    key: str


class SignalPath(msgspec.Struct, frozen=True):
    id: Id
    name: Id


class SignalQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str | None = None


class TaskQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: list[TaskState] = []
    workflow: str | None = None
    created_after: Instant | None = None
    created_before: Instant | None = None
    attribute: Annotated[str, msgspec.Meta(description="name:value", pattern="^[^:]+:")] | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class StepQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = ITEMS_MAX
    cursor: Cursor | None = None


class Cancel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    undo: bool = True
    reason: str | None = None


class Resubmit(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}
):
    from_: Literal["failed", "start"] = "failed"
    reason: str | None = None


class CompleteStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    output: Any
    reason: str | None = None


# Hand in


async def submit_task(call: Call[Nothing, Nothing, Submission]) -> Reply[Task]:
    submitted = await _enter(call, call.body.id)
    return Reply(task_view(submitted.task), headers=_location(submitted))


async def put_task(call: Call[TaskPath, Nothing, Submission]) -> Reply[Task]:
    if call.body.id not in (None, call.path.id):
        raise InvalidInput(
            f"id is {call.body.id!r} in the body and {call.path.id!r} in the path; give it once"
        )
    submitted = await _enter(call, call.path.id)
    status = HTTPStatus.CREATED if submitted.created else HTTPStatus.OK
    return Reply(task_view(submitted.task), status=status, headers=_location(submitted))


async def _enter(call: Call[Any, Any, Submission], id: str | None) -> Submitted:
    admission = call.service.admission
    await admission.check()
    with admission.entering():
        return await call.client.enter(
            call.body.workflow,
            call.body.input,
            id=id,
            complete_by=call.body.complete_by,
            reply_to=call.body.reply_to,
            attributes=call.body.attributes,
            key=call.headers.get(IDEMPOTENCY_KEY.name),
            parent=call.headers.get(TRACE.name),
        )


def _location(submitted: Submitted) -> dict[str, str]:
    return {"Location": f"/v1/tasks/{submitted.task.id}"}


async def signal_task(call: Call[SignalPath, SignalQuery, Any]) -> Task:
    client, path = call.client, call.path
    key = call.query.key or call.headers.get(SIGNAL_KEY.name)
    try:
        return await client.signal(path.id, path.name, call.body, key=key)
    except Conflict as error:
        state = (await client.task(path.id)).state
        raise Refused(KINDS[IllegalMove], str(error), state=state) from error


# Look


async def list_tasks(call: Call[Nothing, TaskQuery, Nothing]) -> Page[Task]:
    wanted = call.query
    attribute = None if wanted.attribute is None else wanted.attribute.partition(":")
    return await call.client.tasks(
        TaskFilter(
            states=tuple(wanted.state),
            workflow=wanted.workflow,
            created_after=_in_utc("created_after", wanted.created_after),
            created_before=_in_utc("created_before", wanted.created_before),
            attribute=None if attribute is None else (attribute[0], attribute[2]),
            before=wanted.cursor,
            limit=wanted.limit,
        )
    )


def _in_utc(name: str, instant: datetime | None) -> datetime | None:
    try:
        return instant and instant.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"parameter {name} lies outside the calendar in UTC") from error


async def get_task(call: Call[TaskPath, Nothing, Nothing]) -> Task:
    return await call.client.task(call.path.id)


async def list_steps(call: Call[TaskPath, StepQuery, Nothing]) -> Page[Step]:
    return await call.client.steps_page(call.path.id, after=call.query.cursor or 0, limit=call.query.limit)


async def explain_task(call: Call[TaskPath, Nothing, Nothing]) -> Reason:
    return await call.client.why(call.path.id)


async def preview_undo(call: Call[TaskPath, Nothing, Nothing]) -> UndoPlan:
    return await call.client.undo_plan(call.path.id)


# Step in


async def cancel_task(call: Call[TaskPath, Nothing, Cancel]) -> Task:
    return await call.client.cancel(call.path.id, undo=call.body.undo, reason=call.body.reason)


async def undo_task(call: Call[TaskPath, Nothing, Because]) -> Task:
    return await call.client.undo(call.path.id, reason=call.body.reason)


async def resubmit_task(call: Call[TaskPath, Nothing, Resubmit]) -> Task:
    return await call.client.resubmit(call.path.id, call.body.from_, reason=call.body.reason)


async def complete_step(call: Call[StepPath, Nothing, CompleteStep]) -> Task:
    path, body = call.path, call.body
    return await call.client.complete_step(path.id, path.key, body.output, reason=body.reason)
