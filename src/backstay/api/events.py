"""A task as a stream of server-sent events: how it stands now, then each change, until it has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from backstay.api.access import is_still_let_in
from backstay.api.calls import Call, Nothing
from backstay.api.lookouts import OVER, Lookout, Sight, event
from backstay.api.tasks import TaskPath
from backstay.errors import Closed, Unavailable

# A stream on which nothing comes is given up by what lies in between.
BEAT_EVERY_SECONDS: Final = 15.0

_BEAT: Final = b": still here\n\n"

Watching = Call[TaskPath, Nothing, Nothing]


class EventStream(StreamingResponse):
    """Holds its seat, and its part of the lookout, until it is over, however it ends."""

    media_type = "text/event-stream"

    def __init__(self, call: Watching) -> None:
        super().__init__(())
        self._call = call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._call.service
        try:
            if scope["method"] == "HEAD":
                await Response(headers=self.headers)(scope, receive, send)
                return
            with service.lookouts.on(self._call.path.id) as lookout:
                self.body_iterator = _events(self._call, lookout)
                await super().__call__(scope, receive, send)
        finally:
            service.watchers.leave_seat()


async def watch_task(call: Watching) -> EventStream:
    await call.client.task(call.path.id)  # Who does not exist has nothing to be watched.
    call.service.watchers.take_seat()
    return EventStream(call)


async def _events(call: Watching, lookout: Lookout) -> AsyncIterator[bytes]:
    clock = call.service.ports.clock
    seen = Seen()
    beat_at = clock.monotonic() + BEAT_EVERY_SECONDS
    while await _may_go_on(call):
        has_ended = lookout.has_ended()  # Asked first: then what is seen below is the last.
        sight = lookout.sight
        if sight is not None and (news := b"".join(seen.news(sight))):
            yield news
        if sight is not None and sight.task.state in OVER:
            yield event("end", {"state": sight.task.state}).text
            return
        if has_ended:
            return
        if clock.monotonic() >= beat_at:
            beat_at = clock.monotonic() + BEAT_EVERY_SECONDS
            yield _BEAT
        await lookout.next_look()


async def _may_go_on(call: Watching) -> bool:
    """Not when the process is about to stop, nor when the caller would no longer be let in."""
    if call.service.ports.health.draining:
        return False
    try:
        return is_still_let_in(call.caller, await call.service.keyring.get())
    except Closed:
        return False
    except Unavailable:
        return True  # As long as nobody knows better.


class Seen:
    """What a watcher was told last: only its digest, for there are many of them."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}

    def news(self, sight: Sight) -> Iterator[bytes]:
        """An event for each thing that is not as it was."""
        for one in sight.events:
            if self._digests.get(one.about) != one.digest:
                self._digests[one.about] = one.digest
                yield one.text
