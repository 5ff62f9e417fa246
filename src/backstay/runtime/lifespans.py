"""What mounted applications do before the first request and after the last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.lifespan.on import LifespanOn

from backstay.definitions.mounts import AsgiApplication
from backstay.errors import Unavailable
from backstay.observe import log

# Each of them; after that the process ends without it.
SHUTDOWN_SECONDS: Final = 10.0


@asynccontextmanager
async def started(mounts: Mapping[str, AsgiApplication]) -> AsyncIterator[dict[str, AsgiApplication]]:
    """The applications, each started and, at the end, shut down. Raises Unavailable when one fails to."""
    async with AsyncExitStack() as stack:
        yield {path: await stack.enter_async_context(_started(path, one)) for path, one in mounts.items()}


@asynccontextmanager
async def _started(path: str, application: AsgiApplication) -> AsyncIterator[AsgiApplication]:
    # uvicorn's own, so that an application finds here what it finds everywhere; one that knows no
    # lifespan is served all the same.
    config = uvicorn.Config(
        _as_function(application), ws="none", lifespan="auto", log_config=None, log_level="warning"
    )
    config.load()
    lifespan = LifespanOn(config)
    await lifespan.startup()
    if lifespan.should_exit:
        raise Unavailable(f"the application mounted at '{path}' did not start; the log says why")
    try:
        yield _with_state(application, lifespan.state)
    finally:
        await _shut_down(path, lifespan)


async def _shut_down(path: str, lifespan: LifespanOn) -> None:
    try:
        async with asyncio.timeout(SHUTDOWN_SECONDS):
            await lifespan.shutdown()
    except TimeoutError:
        log.error("the application mounted at '%s' did not end within %g s", path, SHUTDOWN_SECONDS)


def _as_function(application: AsgiApplication) -> AsgiApplication:
    """The same with three parameters to see: by them uvicorn tells applications from what makes them."""

    async def function(scope: Scope, receive: Receive, send: Send) -> None:
        await application(scope, receive, send)

    return function


def _with_state(application: AsgiApplication, state: Mapping[str, Any]) -> AsgiApplication:
    """What the application put aside when it started is there at every request; who calls, we say."""

    async def with_state(scope: Scope, receive: Receive, send: Send) -> None:
        await application({**scope, "state": {**state, **scope.get("state", {})}}, receive, send)

    return with_state
