"""A server as a desk: the same questions as to a store, over HTTP.

Nothing here knows more than the HTTP interface promises. The token travels in one header, and in no
error: whatever a server says of a request is searched for it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from backstay.agents.http_answers import HttpAnswer, error_for
from backstay.agents.http_requests import HttpQuery, HttpRequest, Service, Terms
from backstay.cli.remote_answers import Refused, is_fine, read, told
from backstay.cli.remote_jobs import RemoteJobroom
from backstay.cli.remote_queues import RemoteMailroom
from backstay.cli.remote_streams import RemoteStreamroom
from backstay.clock import SystemClock
from backstay.definitions.calls import check_signal_name
from backstay.domain.access import Role
from backstay.domain.alert import Alert
from backstay.domain.audit import Entry
from backstay.domain.durations import describe
from backstay.domain.operate import From
from backstay.domain.states import SETTLED
from backstay.domain.task import check_id
from backstay.domain.why import Reason
from backstay.errors import (
    BackstayError,
    Conflict,
    HttpFailed,
    HttpUnavailable,
    InvalidRequest,
    InvalidSetting,
    Unavailable,
)
from backstay.operating import Breaker
from backstay.store.base import TaskFilter
from backstay.store.records import AlertFilter, AuditFilter
from backstay.views import (
    AgentView,
    CreatedToken,
    Page,
    Step,
    SupervisorRun,
    SupervisorView,
    Task,
    TokenView,
    UndoPlan,
    WorkflowView,
)

CONNECTIONS: Final = 4
ANSWER_TIME: Final = timedelta(seconds=30)
# The journal of a task may hold thousands of steps, each with its values.
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024

# How often a task that somebody waits for is looked at.
LOOK_SECONDS: Final = 0.5

# The client's own limit lies behind ours, whose complaint speaks of a server.
_TERMS: Final = Terms(time=2 * ANSWER_TIME, headers={"Accept": "application/json"})

_WRITTEN_WRONGLY: Final = frozenset({400, 413, 422})
_NOT_NOW: Final = frozenset({429, 503})

Kind = TypeVar("Kind")


class Remote:
    """One server. What it refuses is raised as the store would have raised it."""

    def __init__(self, url: str, *, token: str | None) -> None:
        self._service = Service(url, headers=_authorization(token))
        # It brings aiohttp, which takes longer to import than all the rest; a store needs none of it.
        from backstay.agents.http_client import HttpClient  # noqa: PLC0415

        self._http = HttpClient(connections=CONNECTIONS, response_bytes_max=ANSWER_BYTES_MAX)
        self._has_token = token is not None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    @property
    def mailroom(self) -> RemoteMailroom:
        return RemoteMailroom(get=self._get, post=self._post, send=self._send)

    @property
    def streamroom(self) -> RemoteStreamroom:
        return RemoteStreamroom(get=self._get, post=self._post, send=self._send)

    @property
    def jobroom(self) -> RemoteJobroom:
        return RemoteJobroom(send=partial(self._send, root=()))

    # Tasks

    async def submit(
        self,
        workflow: str,
        input: Any,
        *,
        id: str | None = None,
        complete_by: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> tuple[Task, bool]:
        """The task, and whether this very call created it."""
        optional = _given({"complete_by": complete_by, "attributes": attributes})
        body = {"workflow": workflow, "input": input, **optional}
        # PUT tells by its status what POST leaves open: whether the id was known.
        if id is not None:
            answer = await self._send("PUT", _of(id), json=body)
            return read(answer, Task), answer.status == HTTPStatus.CREATED
        # And with an id of ours, what is sent again because its answer was lost enters no second task.
        fresh = str(uuid.uuid4())
        try:
            return read(await self._send("PUT", _of(fresh), json=body), Task), True
        except Unavailable as error:
            raise Unavailable(f"{error}; submit again with --id {fresh}, which enters it once") from None

    async def task(self, task_id: str) -> Task:
        return await self._get(Task, *_of(task_id))

    async def steps(self, task_id: str) -> list[Step]:
        path = (*_of(task_id), "steps")
        page = await self._get(Page[Step], *path)
        steps = page.items
        while page.next is not None:
            page = await self._get(Page[Step], *path, params={"cursor": page.next})
            steps += page.items
        return steps

    async def tasks(self, wanted: TaskFilter) -> Page[Task]:
        return await self._get(
            Page[Task],
            "tasks",
            params={
                "state": list(wanted.states),
                "workflow": wanted.workflow,
                "created_after": _instant(wanted.created_after),
                "created_before": _instant(wanted.created_before),
                "attribute": None if wanted.attribute is None else ":".join(wanted.attribute),
                "limit": wanted.limit,
                "cursor": wanted.before,
            },
        )

    async def why(self, task_id: str) -> Reason:
        return await self._get(Reason, *_of(task_id), "why")

    async def undo_plan(self, task_id: str) -> UndoPlan:
        return await self._get(UndoPlan, *_of(task_id), "undo")

    async def settled(self, task_id: str) -> Task:
        """The task once it ended or stopped; a server that is away for a moment is waited for."""
        task = await self.task(task_id)
        while task.state not in SETTLED:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                task = await self.task(task_id)
            except Unavailable:
                continue
        return task

    async def signal(
        self,
        task_id: str,
        name: str,
        payload: Any = None,
        *,
        key: str | None = None,
        reason: str | None = None,
    ) -> Task:
        _check_no_reason(reason, "a signal")
        headers = _given({"Backstay-Signal-Key": key})
        return await self._post(
            Task, *_of(task_id), "signal", check_signal_name(name), json=payload, headers=headers
        )

    async def resubmit(self, task_id: str, from_: From = "failed", *, reason: str | None = None) -> Task:
        return await self._post(Task, *_of(task_id), "resubmit", json={"from": from_, "reason": reason})

    async def undo(self, task_id: str, *, reason: str | None = None) -> Task:
        return await self._post(Task, *_of(task_id), "undo", json={"reason": reason})

    async def cancel(self, task_id: str, *, undo: bool = True, reason: str | None = None) -> Task:
        return await self._post(Task, *_of(task_id), "cancel", json={"undo": undo, "reason": reason})

    async def complete_step(
        self, task_id: str, key: str, output: Any = None, *, reason: str | None = None
    ) -> Task:
        told = {"output": output, "reason": reason}
        return await self._post(Task, *_of(task_id), "steps", key, "complete", json=told)

    # Workflows and agents

    async def agents(self) -> list[AgentView]:
        return (await self._get(Page[AgentView], "agents")).items

    async def workflows(self) -> list[WorkflowView]:
        return (await self._get(Page[WorkflowView], "workflows")).items

    async def pause_workflow(self, name: str, *, reason: str | None = None) -> WorkflowView:
        return await self._post(WorkflowView, *_workflow(name), "pause", json={"reason": reason})

    async def resume_workflow(self, name: str, *, reason: str | None = None) -> WorkflowView:
        return await self._post(WorkflowView, *_workflow(name), "resume", json={"reason": reason})

    async def pause_agent(self, name: str, *, reason: str | None = None) -> AgentView:
        return await self._post(AgentView, *_agent(name), "pause", json={"reason": reason})

    async def resume_agent(self, name: str, *, reason: str | None = None) -> AgentView:
        return await self._post(AgentView, *_agent(name), "resume", json={"reason": reason})

    async def force_breaker(self, agent: str, position: Breaker, *, reason: str | None = None) -> AgentView:
        told = {"position": position, "reason": reason}
        return await self._post(AgentView, *_agent(agent), "breaker", json=told)

    # The supervisor

    async def supervisor(self) -> SupervisorView:
        return await self._get(SupervisorView, "supervisor")

    async def supervise(self) -> SupervisorRun:
        """Make one round, if it is the server's to make."""
        return await self._post(SupervisorRun, "supervisor", "run", json={})

    # What operators watch

    async def alerts(self, wanted: AlertFilter) -> Page[Alert]:
        params = {"open": wanted.open_only or None, "limit": wanted.limit, "cursor": wanted.before}
        return await self._get(Page[Alert], "alerts", params=params)

    async def acknowledge(self, alert_id: int, *, reason: str | None = None) -> Alert:
        return await self._post(Alert, "alerts", alert_id, "acknowledge", json={"reason": reason})

    async def audit(self, wanted: AuditFilter) -> Page[Entry]:
        params = {"target": wanted.target, "limit": wanted.limit, "cursor": wanted.before}
        return await self._get(Page[Entry], "audit", params=params)

    async def tokens(self) -> list[TokenView]:
        return (await self._get(Page[TokenView], "tokens")).items

    async def create_token(self, name: str, role: Role) -> str:
        return (
            await self._post(
                CreatedToken, "tokens", json={"name": check_id(name, name="name of the token"), "role": role}
            )
        ).token

    async def revoke_token(self, name: str, *, reason: str | None = None) -> None:
        _check_no_reason(reason, "the end of a token")
        await self._send("DELETE", ("tokens", check_id(name)))

    # Underneath

    async def _get(self, kind: type[Kind], *path: str | int, params: Mapping[str, Any] | None = None) -> Kind:
        return read(await self._send("GET", path, params=_given(params or {})), kind)

    async def _post(
        self, kind: type[Kind], *path: str | int, json: Any, headers: Mapping[str, str] | None = None
    ) -> Kind:
        return read(await self._send("POST", path, json=json, headers=headers), kind)

    async def _send(
        self,
        method: str,
        path: tuple[str | int, ...],
        *,
        json: Any = None,
        data: bytes | None = None,
        params: HttpQuery | None = None,
        headers: Mapping[str, str] | None = None,
        fine: Callable[[HttpAnswer], bool] | None = None,
        root: tuple[str, ...] = ("v1",),
    ) -> HttpAnswer:
        """The answer to a request, if it is a success, or ``fine`` says that it is as good.

        ``data`` is sent as it is; ``headers`` say what it is then. ``path`` goes on from ``root``.
        """
        request = self._service.request(
            method, (*root, *path), terms=_TERMS, json=json, params=params, headers=headers
        )
        if data is not None:
            request = dataclasses.replace(request, body=data)
        answer = await self._exchange(request, whole=fine is not None)
        if not is_fine(answer.status) and not (fine is not None and fine(answer)):
            raise self._refusal(answer)
        return answer

    async def _exchange(self, request: HttpRequest, *, whole: bool = False) -> HttpAnswer:
        try:
            async with asyncio.timeout(ANSWER_TIME.total_seconds()):
                return await self._http.send(
                    request, accepts=lambda status: whole or is_fine(status), keep_open=True
                )
        except TimeoutError:
            raise Unavailable(f"{request.shown} got no answer within {describe(ANSWER_TIME)}") from None
        except HttpUnavailable as error:
            hint = "" if error.unsure else "; is a server running there, and is that the right --url?"
            raise Unavailable(f"{error}{hint}") from None
        except HttpFailed:
            raise Refused(
                f"{request.shown} answered with more than {ANSWER_BYTES_MAX:,} bytes;"
                " a list is shorter with --limit"
            ) from None

    def _refusal(self, answer: HttpAnswer) -> BackstayError:
        said = told(answer)
        if said is None:
            return Refused(f"{error_for(answer, now=SystemClock().now())}; is that a Backstay server?")
        if answer.status == HTTPStatus.UNAUTHORIZED:
            remedy = "put another token into" if self._has_token else "put a token into"
            return Refused(f"{said}; {remedy} BACKSTAY_TOKEN")
        if answer.status in _WRITTEN_WRONGLY:
            return InvalidRequest(said)
        if answer.status in _NOT_NOW:
            return Unavailable(said)
        return Conflict(said) if answer.status == HTTPStatus.CONFLICT else Refused(said)


def _authorization(token: str | None) -> dict[str, str]:
    if token is None:
        return {}
    # The complaint does not repeat it: half a secret is one too.
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidSetting("BACKSTAY_TOKEN is not one word of ASCII; a token looks like bst_…")
    return {"Authorization": f"Bearer {token}"}


# Where things are. What no id can be is refused here, as a store refuses it, and not sent.


def _of(task_id: str) -> tuple[str, str]:
    return "tasks", check_id(task_id)


def _workflow(name: str) -> tuple[str, str]:
    return "workflows", check_id(name, name="name of the workflow")


def _agent(name: str) -> tuple[str, str]:
    return "agents", check_id(name, name="name of the agent")


def _check_no_reason(reason: str | None, what: str) -> None:
    """Whoever gives a reason wants it in the audit trail: it is not dropped on the way."""
    if reason is not None:
        raise InvalidRequest(f"reason: a server takes none for {what}; leave it out, or use --store")


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _instant(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()
