"""A task as a stream of server-sent events: how it stands now, then each change, until it has ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from backstay.api.access import is_still_let_in
from backstay.api.calls import Call, Nothing
from backstay.api.tasks import TaskPath
from backstay.api.watchers import Watchers
from backstay.client import Client
from backstay.domain.states import SETTLED, TaskState
from backstay.errors import Closed, Unavailable, UnknownTask
from backstay.views import Step, Task

# Steps settle without a word to anybody else: we look by ourselves.
LOOK_EVERY_SECONDS: Final = 0.5
# A stream on which nothing comes is given up by what lies in between.
BEAT_EVERY_SECONDS: Final = 15.0

#: A task that stopped in any other state may be sent on its way again.
_OVER: Final = frozenset({TaskState.PROCESSED, TaskState.UNDONE, TaskState.CANCELLED})

_BEAT: Final = b": still here\n\n"

Watching = Call[TaskPath, Nothing, Nothing]


class EventStream(StreamingResponse):
    """Holds its seat until it is over, however it ends."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], watchers: Watchers) -> None:
        super().__init__(events)
        self._watchers = watchers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] == "HEAD":
                await Response(headers=self.headers)(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)
        finally:
            self._watchers.leave_seat()


async def watch_task(call: Watching) -> EventStream:
    await call.client.task(call.path.id)  # Who does not exist has nothing to be watched.
    call.service.watchers.take_seat()
    return EventStream(_events(call), call.service.watchers)


async def _events(call: Watching) -> AsyncIterator[bytes]:
    client, clock = call.client, call.service.ports.clock
    seen = Seen()
    task, news = None, b""
    beat_at = clock.monotonic() + BEAT_EVERY_SECONDS
    while True:
        try:
            if not await _may_go_on(call):
                return
            task = await client.task(call.path.id)
            news = b"".join(seen.news(task, await client.steps(call.path.id)))
        except (UnknownTask, Closed):
            return
        except Unavailable:
            news = b""  # It may come back, and whoever watches has the time.
        if news:
            yield news
        if task is not None and task.state in _OVER:
            yield event("end", {"state": task.state})
            return
        if clock.monotonic() >= beat_at:
            beat_at = clock.monotonic() + BEAT_EVERY_SECONDS
            yield _BEAT
        await _pause(client, task)


async def _may_go_on(call: Watching) -> bool:
    """Not when the process is about to stop, nor when the caller would no longer be let in."""
    if call.service.ports.health.draining:
        return False
    return is_still_let_in(call.caller, await call.service.keyring.get())


async def _pause(client: Client, task: Task | None) -> None:
    """A moment, or less when the task settles meanwhile."""
    if task is None or task.state in SETTLED:
        await asyncio.sleep(LOOK_EVERY_SECONDS)
        return
    with contextlib.suppress(TimeoutError, Unavailable, UnknownTask):
        async with asyncio.timeout(LOOK_EVERY_SECONDS):
            await client.settled(task.id)


class Seen:
    """What a watcher was told last."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._steps: dict[str, Step] = {}

    def news(self, task: Task, steps: list[Step]) -> Iterator[bytes]:
        """An event for each thing that is not as it was."""
        listed = msgspec.structs.replace(task, input=msgspec.UNSET, output=msgspec.UNSET)
        if listed != self._task:
            self._task = listed
            yield event("task", listed)
        for step in steps:
            if step != self._steps.get(step.key):
                self._steps[step.key] = step
                yield event("step", step)


def event(name: str, data: Any) -> bytes:
    """JSON has no line breaks of its own, so that an event is always one line of data."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
