"""HttpAgent: a ready agent for HTTP services."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypedDict, Unpack

from backstay.agents.http_answers import HttpAnswer, error_for, is_success
from backstay.agents.http_requests import (
    HttpPath,
    HttpQuery,
    Service,
    Terms,
    terms_elsewhere,
    terms_in_step,
)
from backstay.clock import SystemClock
from backstay.definitions.agents import Agent, Step
from backstay.definitions.ambient import StepContext, current_scope, step_context
from backstay.domain.breaker import Breaker
from backstay.domain.durations import Duration, duration
from backstay.domain.outbound import Outbound
from backstay.domain.pace import Pace
from backstay.domain.retry import Retry
from backstay.errors import InvalidHttpRequest, InvalidRequest, NotInWorkflow
from backstay.settings import Settings

CONNECTIONS: Final = 100
CONNECTIONS_MAX: Final = 10_000
RESPONSE_BYTES_MAX: Final = 1024 * 1024


class RequestOptions(TypedDict, total=False):
    """What a request may say beside its method and path."""

    json: Any
    params: HttpQuery | None
    headers: Mapping[str, str] | None
    ok: Collection[int]
    timeout: Duration | None


class HttpAgent(Agent):
    """Wraps one HTTP service. In the body of its steps and undos it sends requests for them.

    A request ends before the step's complete-by, and carries the step's idempotency key and how much
    time remains. Answers become results or failures by their status; see ``request``.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        complete_by: Duration | None,
        retry: Retry | None,
        breaker: Breaker | None,
        concurrency: int | None,
        pace: Pace | bool | None,
        connections: int,
        response_bytes_max: int,
        outbound: Outbound | None,
        headers: Mapping[str, str] | None,
        register: Callable[[Step[Any, Any]], None],
    ) -> None:
        # aiohttp takes more than half as long to import as all the rest; only who uses it waits for it.
        from backstay.agents.http_client import HttpClient  # noqa: PLC0415

        if not 1 <= connections <= CONNECTIONS_MAX:
            raise InvalidRequest(
                f"connections is {connections}; it must lie between 1 and {CONNECTIONS_MAX:,}"
            )
        if response_bytes_max < 1:
            raise InvalidRequest(f"response_bytes_max is {response_bytes_max}; it must be at least 1")
        super().__init__(
            name,
            complete_by=complete_by,
            retry=retry,
            breaker=breaker,
            # In the agent's line a step's time does not run yet; in the line for a connection it does.
            concurrency=connections if concurrency is None else concurrency,
            pace=pace,
            register=register,
        )
        self._clock = SystemClock()
        self._service = Service(url, headers=headers)
        self._client = HttpClient(
            connections=connections, response_bytes_max=response_bytes_max, outbound=outbound
        )

    async def get(self, path: HttpPath, **options: Unpack[RequestOptions]) -> HttpAnswer:
        """See ``request``."""
        return await self.request("GET", path, **options)

    async def put(self, path: HttpPath, **options: Unpack[RequestOptions]) -> HttpAnswer:
        """See ``request``."""
        return await self.request("PUT", path, **options)

    async def post(self, path: HttpPath, **options: Unpack[RequestOptions]) -> HttpAnswer:
        """See ``request``."""
        return await self.request("POST", path, **options)

    async def patch(self, path: HttpPath, **options: Unpack[RequestOptions]) -> HttpAnswer:
        """See ``request``."""
        return await self.request("PATCH", path, **options)

    async def delete(self, path: HttpPath, **options: Unpack[RequestOptions]) -> HttpAnswer:
        """See ``request``."""
        return await self.request("DELETE", path, **options)

    async def request(
        self,
        method: str,
        path: HttpPath,
        *,
        json: Any = None,
        params: HttpQuery | None = None,
        headers: Mapping[str, str] | None = None,
        ok: Collection[int] = (),
        timeout: Duration | None = None,  # noqa: ASYNC109  Also sent to the service.
    ) -> HttpAnswer:
        """Send a request to ``path`` below the service's url and return its answer.

        A status of 2xx, or one of ``ok``, is a success. 408, 425, 429, 5xx, a timeout and a failed
        connection raise HttpUnavailable, after which the step is tried again; anything else raises
        HttpFailed, which is permanent. ``timeout`` leaves time for another try; without it a request
        may take all that remains. Outside a task it may take the agent's ``complete_by``.

        A ``path`` of several parts is quoted part by part; as one text it is sent as it is written, and
        refused (InvalidHttpRequest) if it would lead elsewhere.
        """
        step = self._step(method)
        request = self._service.request(
            method,
            path,
            terms=self._terms(step, timeout),
            json=json,
            params=params,
            headers=headers,
        )
        answer = await self._client.send(
            request, accepts=lambda status: is_success(status, ok), keep_open=step is not None
        )
        if is_success(answer.status, ok):
            return answer
        raise error_for(answer, now=self._clock.now())

    async def close(self) -> None:
        await self._client.close()

    def _step(self, method: str) -> StepContext | None:
        """The step, or undo, that makes the request; ``None`` outside a task."""
        if current_scope.get() is not None:
            raise NotInWorkflow(
                f"{method} of agent {self.name!r} belongs into a step: a workflow is replayed"
            )
        return step_context()

    def _terms(self, step: StepContext | None, timeout: Duration | None) -> Terms:
        try:
            limit = None if timeout is None else duration(timeout, name="timeout")
        except InvalidRequest as error:
            raise InvalidHttpRequest(str(error)) from error
        if step is not None:
            return terms_in_step(step, timeout=limit)
        return terms_elsewhere(self.complete_by or Settings().agent_complete_by, timeout=limit)
