"""App: what an application declares, and the front door to running it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, Literal, ParamSpec, TypeVar, overload

from backstay.agents.http import CONNECTIONS, RESPONSE_BYTES_MAX, HttpAgent
from backstay.client import Client, Handle
from backstay.definitions.agents import Agent, Step
from backstay.definitions.batches import MAX_EVENTS_USUAL, BatchHandler, batch_definition
from backstay.definitions.dials import Dial
from backstay.definitions.mounts import AsgiApplication
from backstay.definitions.queues import (
    Handler,
    consumer_definition,
    queue_definition,
    subscription_definition,
)
from backstay.definitions.registry import Registry
from backstay.definitions.streams import stream_definition
from backstay.definitions.submissions import Acceptor
from backstay.definitions.workflows import Workflow
from backstay.domain.breaker import Breaker
from backstay.domain.durations import Duration
from backstay.domain.message import Property
from backstay.domain.outbound import Outbound
from backstay.domain.pace import Pace
from backstay.domain.recovery import Recovery
from backstay.domain.retry import Retry
from backstay.domain.task import OURS, check_id
from backstay.errors import Closed, InvalidId
from backstay.mailroom import Mailroom
from backstay.messaging.handles import QueueHandle, TopicHandle
from backstay.messaging.stream_handle import StreamHandle
from backstay.operating import Operator
from backstay.runtime import Roles, Running, connected
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.streamroom import Streamroom
from backstay.submit import CompleteBy
from backstay.views import Step as StepView
from backstay.views import Task

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Handler)
Accepts = TypeVar("Accepts", bound=Acceptor)
Handles = TypeVar("Handles", bound=BatchHandler)


class App:
    """Registers workflows and agents; runs them, or talks to others who do."""

    def __init__(self, name: str) -> None:
        self.name = check_id(name, name="name of the app")
        self.registry = Registry()
        #: Of the runs that are under way; usually there is one.
        self._clients: list[Client] = []

    # Declare

    def agent(
        self,
        name: str,
        *,
        complete_by: Duration | None = None,
        retry: Retry | None = None,
        breaker: Breaker | None = None,
        concurrency: int | None = None,
        pace: Pace | bool | None = None,
    ) -> Agent:
        """Declare an agent: it wraps one remote service or resource.

        With ``pace`` the steps that run at once follow how the service fares, up to ``concurrency``.
        """
        agent = Agent(
            _own_name(name, "agent"),
            complete_by=complete_by,
            retry=retry,
            breaker=breaker,
            concurrency=concurrency,
            pace=pace,
            register=self.registry.add_step,
        )
        self.registry.add_agent(agent)
        return agent

    def http_agent(
        self,
        name: str,
        url: str,
        *,
        complete_by: Duration | None = None,
        retry: Retry | None = None,
        breaker: Breaker | None = None,
        concurrency: int | None = None,
        pace: Pace | bool | None = None,
        connections: int = CONNECTIONS,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        outbound: Outbound | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAgent:
        """Declare an agent that wraps the HTTP service at ``url``.

        ``headers`` go with every request. Unless ``concurrency`` says otherwise, as many steps run at
        once as there are ``connections``; with ``pace``, at most. With ``outbound`` only public addresses are
        reached, and what it allows beside them: for a service whose address somebody else chooses.
        """
        agent = HttpAgent(
            _own_name(name, "agent"),
            url,
            complete_by=complete_by,
            retry=retry,
            breaker=breaker,
            concurrency=concurrency,
            pace=pace,
            connections=connections,
            response_bytes_max=response_bytes_max,
            outbound=outbound,
            headers=headers,
            register=self.registry.add_step,
        )
        self.registry.add_agent(agent)
        return agent

    @overload
    def workflow(
        self, function: Callable[Parameters, Awaitable[Result]], /
    ) -> Workflow[Parameters, Result]: ...

    @overload
    def workflow(
        self,
        /,
        *,
        name: str | None = None,
        complete_by: Duration | None = None,
        version: int = 1,
        recovery: Recovery | None = None,
        plan: Sequence[Step[..., Any]] = (),
    ) -> Callable[[Callable[Parameters, Awaitable[Result]]], Workflow[Parameters, Result]]: ...

    def workflow(
        self,
        function: Callable[..., Awaitable[Any]] | None = None,
        /,
        *,
        name: str | None = None,
        complete_by: Duration | None = None,
        version: int = 1,
        recovery: Recovery | None = None,
        plan: Sequence[Step[..., Any]] = (),
    ) -> Any:
        """Declare a workflow: an ``async def`` that awaits steps."""
        namespace = sys._getframe(1).f_locals  # noqa: SLF001  Types may be local to the caller.

        def declare(body: Callable[..., Awaitable[Any]]) -> Workflow[..., Any]:
            workflow: Workflow[..., Any] = Workflow(
                body,
                name=name,
                complete_by=complete_by,
                version=version,
                recovery=recovery,
                plan=plan,
                namespace=namespace,
            )
            _own_name(workflow.name, "workflow")
            self.registry.add_workflow(workflow)
            return workflow

        return declare if function is None else declare(function)

    def queue(
        self,
        name: str,
        *,
        lock: Duration | None = None,
        max_deliveries: int | None = None,
        dedup: Duration | None = None,
        ttl: Duration | None = None,
        dead_letter_expired: bool = False,
        sessions: bool = False,
        max_messages: int | None = None,
    ) -> QueueHandle:
        """Declare a queue, or, without options, take one that is declared elsewhere in the application.

        A received message is locked for ``lock`` and set aside after ``max_deliveries`` failures. Within
        ``dedup`` a message whose sender named it is sent once. After ``ttl`` a message is dropped, or set
        aside with ``dead_letter_expired``. With ``sessions`` every message must belong to one. While it holds
        ``max_messages``, those that were set aside included, a send raises QueueFull.
        """
        declared = queue_definition(
            name,
            lock=lock,
            max_deliveries=max_deliveries,
            dedup=dedup,
            ttl=ttl,
            dead_letter_expired=dead_letter_expired,
            sessions=sessions,
            max_messages=max_messages,
        )
        if name not in self.registry.queues or declared != queue_definition(name):
            self.registry.add_queue(declared)
        return QueueHandle(name, lambda: self._running.exchange)

    def topic(self, name: str) -> TopicHandle:
        """Declare a topic; its ``subscription(name, where={…})`` declares a queue that gets copies."""
        self.registry.topics.setdefault(check_id(name, name="name of the topic"), {})

        def subscribe(
            topic: str, name: str, where: Mapping[str, Property] | None = None, **options: Any
        ) -> None:
            if where is not None or options or name not in self.registry.topics[topic]:
                self.registry.add_subscription(subscription_definition(topic, name, where, **options))

        return TopicHandle(name, lambda: self._running.exchange, subscribe=subscribe)

    def consumer(
        self,
        queue: QueueHandle | str,
        *,
        concurrency: int = 1,
        prefetch: int = 0,
        delay: Duration = timedelta(0),
    ) -> Callable[[Function], Function]:
        """Have an ``async def`` handle each message of a queue, wherever the role ``ingest`` runs.

        When it returns, the message is complete. When it raises, the message is abandoned and received
        again after ``delay``; when it raises ``Permanent``, it is set aside. While it runs its lock is
        kept, and it is cancelled if the lock is lost. ``prefetch`` messages are held beside those at work.
        """
        name = queue if isinstance(queue, str) else queue.name
        if self.registry.topic_of(name) is None:
            self.queue(name)

        def declare(handler: Function) -> Function:
            self.registry.add_consumer(
                consumer_definition(name, handler, concurrency=concurrency, prefetch=prefetch, delay=delay)
            )
            return handler

        return declare

    def submission(
        self,
        queue: QueueHandle | str,
        *,
        concurrency: int = 1,
        prefetch: int = 0,
        delay: Duration = timedelta(0),
    ) -> Callable[[Accepts], Accepts]:
        """Have each message of a queue become a task, wherever the role ``ingest`` runs.

        ``async def accept(message, connection) -> Submission`` writes the application's own rows through
        ``connection``, a transaction in the store's database (of asyncpg, or of sqlite3), and says which
        task is to run. These rows, the task and the completion of the message are one transaction. When it
        raises Permanent or InvalidRequest, or its task is none, the message is set aside; when the task's
        id belongs to another one, or it raises IdConflict, with an alert; whatever else it raises, it is
        received again after ``delay``. It should be brief: others wait for what it has locked, on SQLite
        for the whole file.
        """
        name = queue if isinstance(queue, str) else queue.name
        if self.registry.topic_of(name) is None:
            self.queue(name)

        def declare(function: Accepts) -> Accepts:
            self.registry.add_submission(
                consumer_definition(name, function, concurrency=concurrency, prefetch=prefetch, delay=delay)
            )
            return function

        return declare

    def stream(
        self,
        name: str,
        *,
        partitions: int | None = None,
        retention: Duration | None = None,
        dedup: Duration | None = None,
    ) -> StreamHandle:
        """Declare a stream, or, without options, take one that is declared elsewhere.

        A new one has 32 ``partitions`` unless told otherwise, and keeps that number for ever. Events are
        kept for ``retention``, and as long as a group has yet to read them. Within ``dedup`` an event with
        an id is appended once.
        """
        self.registry.add_stream(
            stream_definition(name, partitions=partitions, retention=retention, dedup=dedup)
        )
        return StreamHandle(name, lambda: self._running.streams, begin=self.registry.begin_pipeline)

    def batch(
        self,
        stream: StreamHandle | str,
        *,
        group: str,
        max_events: int = MAX_EVENTS_USUAL,
        max_wait: Duration = "1s",
        retry: Retry | None = None,
    ) -> Callable[[Handles], Handles]:
        """Have an ``async def`` handle the events of a stream in batches, wherever the role ``ingest`` runs.

        ``async def handle(events, checkpoint)`` gets up to ``max_events`` of one partition, as soon as so
        many are there or ``max_wait`` has passed since the first; of each partition one batch at a time.
        ``await checkpoint()`` says that all of them are finished, ``await checkpoint(event)`` that those
        up to this one are. When it raises, the rest comes again, as often as ``retry`` says; then one by
        one, and what still fails is set aside.
        """
        name = stream if isinstance(stream, str) else stream.name
        self.stream(name)

        def declare(handler: Handles) -> Handles:
            self.registry.add_batch(
                batch_definition(name, group, handler, max_events=max_events, max_wait=max_wait, retry=retry)
            )
            return handler

        return declare

    def mount(self, path: str, application: AsgiApplication) -> None:
        """Have ``backstay serve`` serve an ASGI application below ``path``, on the port of its own interface.

        Whoever may look there may look here, and whoever may submit may do anything else. While it is
        served, the app is running: ``app.submit`` and everything else may be called by its handlers.
        """
        self.registry.add_mount(path, application)

    def dial(self, name: str, dial: Dial) -> None:
        """Let operators turn something while the application is served: on ``/dials``, a page of the console.

        Who may step in may turn it. What that does, and that it is remembered, is the dial's own business.
        """
        self.registry.add_dial(check_id(name, name="name of the dial"), dial)

    # Run, or talk to those who run

    @asynccontextmanager
    async def run(self, store: str | Store | None = None, **options: Any) -> AsyncIterator[App]:
        """Run all roles inside this process until the context is left. ``options`` are settings by name."""
        url, opened = _url_or_store(store)
        async with Running(self.registry, Settings.load({**options, "store": url}), store=opened) as running:
            assert running.client is not None
            with self.running_with(running.client):
                yield self

    async def serve(self, settings: Settings, *, roles: Roles, ready: Callable[[str | None], None]) -> None:
        """Run the roles of a process until it is told to stop: what ``backstay serve`` does.

        ``ready`` is called once everything is up, with the address of the HTTP interface if there is one.
        """
        # An HTTP server takes a while to import; who runs an application in a script needs none.
        from backstay.runtime.server import serve  # noqa: PLC0415

        await serve(self.registry, settings, roles=roles, ready=ready, running_with=self.running_with)

    def client(self, store: str | Store | None = None, **options: Any) -> AbstractAsyncContextManager[Client]:
        """Submit and operate only; other processes run the roles."""
        url, opened = _url_or_store(store)
        return connected(self.registry, Settings.load({**options, "store": url}), store=opened)

    # While running: the same as a client

    async def submit(
        self,
        workflow: Workflow[..., Any] | str,
        /,
        *input: Any,
        id: str | None = None,
        complete_by: CompleteBy | None = None,
        reply_to: str | None = None,
        attributes: Mapping[str, str] | None = None,
        connection: object | None = None,
    ) -> Handle:
        """See ``Client.submit``."""
        return await self._running.submit(
            workflow,
            *input,
            id=id,
            complete_by=complete_by,
            reply_to=reply_to,
            attributes=attributes,
            connection=connection,
        )

    def submit_in(
        self,
        connection: object,
        workflow: Workflow[..., Any] | str,
        /,
        *input: Any,
        id: str | None = None,
        complete_by: CompleteBy | None = None,
        reply_to: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Handle:
        """See ``Client.submit_in``."""
        return self._running.submit_in(
            connection,
            workflow,
            *input,
            id=id,
            complete_by=complete_by,
            reply_to=reply_to,
            attributes=attributes,
        )

    def handle(self, task_id: str) -> Handle:
        """See ``Client.handle``."""
        return self._running.handle(task_id)

    async def task(self, task_id: str) -> Task:
        """See ``Client.task``."""
        return await self._running.task(task_id)

    async def steps(self, task_id: str) -> list[StepView]:
        """See ``Client.steps``."""
        return await self._running.steps(task_id)

    async def signal(self, task_id: str, name: str, payload: Any = None, *, key: str | None = None) -> Task:
        """See ``Client.signal``."""
        return await self._running.signal(task_id, name, payload, key=key)

    async def resubmit(self, task_id: str, from_: Literal["failed", "start"] = "failed") -> Task:
        """See ``Client.resubmit``."""
        return await self._running.resubmit(task_id, from_)

    async def undo(self, task_id: str) -> Task:
        """See ``Client.undo``."""
        return await self._running.undo(task_id)

    async def cancel(self, task_id: str, *, undo: bool = True) -> Task:
        """See ``Client.cancel``."""
        return await self._running.cancel(task_id, undo=undo)

    async def complete_step(self, task_id: str, key: str, output: Any = None) -> Task:
        """See ``Client.complete_step``."""
        return await self._running.complete_step(task_id, key, output)

    @property
    def mailroom(self) -> Mailroom:
        """Whoever looks after queues: what is in them, and what was set aside."""
        return self._running.mailroom

    @property
    def streamroom(self) -> Streamroom:
        """Whoever looks after streams: what is in them, how far groups have got, what was set aside."""
        return self._running.streamroom

    @property
    def operator(self) -> Operator:
        """Whoever looks around and steps in: agents, alerts, the audit trail, pause and resume."""
        return self._running

    @property
    def settings(self) -> Settings:
        """What it runs with."""
        return self._running.settings

    @contextmanager
    def running_with(self, client: Client) -> Iterator[None]:
        """While the context is open, what is asked of the app is asked of ``client``."""
        self._clients.append(client)
        try:
            yield
        finally:
            self._clients.remove(client)

    @property
    def _running(self) -> Client:
        if not self._clients:
            raise Closed(f"app {self.name!r} is not running; use it inside `async with app.run(…)`")
        return self._clients[-1]


def _own_name(name: str, what: str) -> str:
    """Return ``name`` if an application may call a workflow or an agent so."""
    if check_id(name, name=f"name of the {what}").startswith(OURS):
        raise InvalidId(f"name of the {what} is {name!r}; names that begin with {OURS!r} are built in")
    return name


def _url_or_store(store: str | Store | None) -> tuple[str | None, Store | None]:
    return (store, None) if store is None or isinstance(store, str) else (None, store)
