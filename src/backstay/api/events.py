"""A task as a stream of server-sent events: how it stands now, then each change, until it has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from backstay.api.calls import Call, Nothing
from backstay.api.lookouts import OVER, Lookout, Sight, event
from backstay.api.tasks import TaskPath
from backstay.web.watchers import BEAT, BEAT_EVERY_SECONDS, may_watch_on

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
    while await may_watch_on(call.caller, call.service.keyring, call.service.ports.health):
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
            yield BEAT
        await lookout.next_look()


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
