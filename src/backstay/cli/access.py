"""Where a command works: on a store, or at a server that has one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Protocol, TypeVar

import typer

from backstay.cli.remote import Remote
from backstay.definitions.registry import Registry
from backstay.domain.access import Role
from backstay.domain.alert import Alert
from backstay.domain.audit import Entry
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.records import CollectionId, EntryStatus, JobState
from backstay.domain.message import Sent
from backstay.domain.operate import From
from backstay.domain.stream import Appended
from backstay.domain.why import Reason
from backstay.errors import InvalidDefinition
from backstay.mailroom import (
    DeadLetter,
    DeletedQueue,
    Discarded,
    PeekedMessage,
    QueueView,
    Resubmitted,
)
from backstay.messaging.lines import AppendedLines
from backstay.operating import Breaker
from backstay.runtime import connected
from backstay.settings import Settings
from backstay.store.base import TaskFilter
from backstay.store.records import AlertFilter, AuditFilter
from backstay.streamroom import (
    EventPage,
    ForgottenGroup,
    QuarantinedEvent,
    Returned,
    StreamSummary,
    StreamView,
)
from backstay.views import AgentView, Page, Step, SupervisorView, Task, TokenView, UndoPlan, WorkflowView

URL_VARIABLE: Final = "BACKSTAY_URL"
# Only from the environment: everybody on the machine can read a command line.
TOKEN_VARIABLE: Final = "BACKSTAY_TOKEN"  # noqa: S105  The name of a variable, not what is in it.

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="URL", help="The state store, as in sqlite:///orders.db.", show_default=False
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help=f"Ask this server instead of the store, with the token in {TOKEN_VARIABLE}.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, as the HTTP interface would.")]

Answer = TypeVar("Answer")


class QueueDesk(Protocol):
    """The part of a desk at which queues are looked after."""

    async def queues(self, *, after: str | None = None, limit: int = 100) -> Page[QueueView]: ...

    async def declare(self, name: str, **options: Any) -> tuple[QueueView, bool]: ...

    async def send(self, to: str, body: Any, **options: Any) -> Sent: ...

    async def peek(self, queue: str, *, limit: int = 100) -> Page[PeekedMessage]: ...

    async def dead_letters(
        self, queue: str, *, after: int | None = None, limit: int = 100
    ) -> Page[DeadLetter]: ...

    async def resubmit(
        self, queue: str, id: str | None = None, *, reason: str | None = None
    ) -> Resubmitted: ...

    async def discard(self, queue: str, id: str | None = None, *, reason: str | None = None) -> Discarded: ...

    async def delete(self, name: str, *, force: bool = False, reason: str | None = None) -> DeletedQueue: ...


class StreamDesk(Protocol):
    """The part of a desk at which streams are looked after."""

    async def streams(self, *, after: str | None = None, limit: int = 100) -> Page[StreamSummary]: ...

    async def stream(self, name: str) -> StreamView: ...

    async def declare(self, name: str, **options: Any) -> tuple[StreamView, bool]: ...

    async def append(
        self, stream: str, body: Any = None, *, key: str | None = None, id: str | None = None
    ) -> Appended: ...

    async def append_lines(self, stream: str, text: bytes) -> AppendedLines: ...

    async def events(self, stream: str, partition: int, *, start: int = 0, limit: int = 100) -> EventPage: ...

    async def forget(self, stream: str, group: str, *, reason: str | None = None) -> ForgottenGroup: ...

    async def quarantine(
        self, stream: str, *, group: str | None = None, after: int | None = None, limit: int = 100
    ) -> Page[QuarantinedEvent]: ...

    async def resubmit(
        self, stream: str, id: int | None = None, *, reason: str | None = None
    ) -> Returned: ...


class JobDesk(Protocol):
    """The part of a desk at which jobs are looked after."""

    async def collections(
        self, subscription: str, resource_group: str | None = None, *, skip: int = 0
    ) -> list[Json]: ...

    async def collection(self, id: CollectionId) -> Json: ...

    async def put_collection(self, id: CollectionId, document: Any) -> Json: ...

    async def enable_collection(self, id: CollectionId) -> Json: ...

    async def disable_collection(self, id: CollectionId) -> Json: ...

    async def delete_collection(self, id: CollectionId) -> None: ...

    async def jobs(
        self, collection: CollectionId, *, state: JobState | None = None, skip: int = 0, limit: int = ...
    ) -> list[Json]: ...

    async def job(self, collection: CollectionId, name: str) -> Json: ...

    async def put_job(self, collection: CollectionId, name: str, document: Any) -> tuple[Json, bool]: ...

    async def enable(self, collection: CollectionId, name: str) -> Json: ...

    async def disable(self, collection: CollectionId, name: str) -> Json: ...

    async def delete_job(self, collection: CollectionId, name: str) -> None: ...

    async def run(self, collection: CollectionId, name: str) -> object: ...

    async def history(
        self,
        collection: CollectionId,
        name: str,
        *,
        status: EntryStatus | None = None,
        skip: int = 0,
        limit: int = ...,
    ) -> list[Json]: ...


class Desk(Protocol):
    """Where an operator sits: what commands ask of a store's client, or of a server."""

    @property
    def mailroom(self) -> QueueDesk: ...

    @property
    def streamroom(self) -> StreamDesk: ...

    @property
    def jobroom(self) -> JobDesk: ...

    # Look

    async def task(self, task_id: str) -> Task: ...

    async def steps(self, task_id: str) -> list[Step]: ...

    async def tasks(self, wanted: TaskFilter) -> Page[Task]: ...

    async def why(self, task_id: str) -> Reason: ...

    async def undo_plan(self, task_id: str) -> UndoPlan: ...

    async def settled(self, task_id: str) -> object:
        """Return once the task ended, or stopped for a person to act."""

    async def agents(self) -> list[AgentView]: ...

    async def workflows(self) -> list[WorkflowView]: ...

    async def supervisor(self) -> SupervisorView: ...

    async def alerts(self, wanted: AlertFilter) -> Page[Alert]: ...

    async def audit(self, wanted: AuditFilter) -> Page[Entry]: ...

    async def tokens(self) -> list[TokenView]: ...

    # Step in

    async def signal(
        self,
        task_id: str,
        name: str,
        payload: Any = None,
        *,
        key: str | None = None,
        reason: str | None = None,
    ) -> Task: ...

    async def resubmit(self, task_id: str, from_: From = "failed", *, reason: str | None = None) -> Task: ...

    async def undo(self, task_id: str, *, reason: str | None = None) -> Task: ...

    async def cancel(self, task_id: str, *, undo: bool = True, reason: str | None = None) -> Task: ...

    async def complete_step(
        self, task_id: str, key: str, output: Any = None, *, reason: str | None = None
    ) -> Task: ...

    async def pause_workflow(self, name: str, *, reason: str | None = None) -> WorkflowView: ...

    async def resume_workflow(self, name: str, *, reason: str | None = None) -> WorkflowView: ...

    async def pause_agent(self, name: str, *, reason: str | None = None) -> AgentView: ...

    async def resume_agent(self, name: str, *, reason: str | None = None) -> AgentView: ...

    async def force_breaker(
        self, agent: str, position: Breaker, *, reason: str | None = None
    ) -> AgentView: ...

    async def acknowledge(self, alert_id: int, *, reason: str | None = None) -> Alert: ...

    async def create_token(self, name: str, role: Role) -> str: ...

    async def revoke_token(self, name: str, *, reason: str | None = None) -> None: ...


def ask(store: str | None, url: str | None, question: Callable[[Desk], Awaitable[Answer]]) -> Answer:
    """What the desk that the options name answers to one question."""

    async def answer() -> Answer:
        async with desk_at(store, url) as desk:
            return await question(desk)

    return asyncio.run(answer())


@asynccontextmanager
async def desk_at(store: str | None, url: str | None) -> AsyncIterator[Desk]:
    """The desk that the options name. A store that is not there is an error, and is not created."""
    server = server_at(store, url)
    if server is not None:
        async with server:
            yield server
        return
    async with connected(Registry(), Settings.load({"store": store}), must_exist=True) as client:
        yield client


def server_at(store: str | None, url: str | None) -> Remote | None:
    """The server that the options or the environment name; ``None`` when it is to be a store."""
    if store is not None and url is not None:
        raise typer.BadParameter("a command works on a store or at a server; give one of --store and --url")
    address = url if store is not None or url is not None else os.environ.get(URL_VARIABLE)
    if not address:
        return None
    try:
        return Remote(address, token=os.environ.get(TOKEN_VARIABLE) or None)
    except InvalidDefinition as error:
        raise typer.BadParameter(str(error), param_hint=f"--url or {URL_VARIABLE}") from None
