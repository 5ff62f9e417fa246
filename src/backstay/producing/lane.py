"""The way to one stream: one batch is under way at a time, and what comes meanwhile is the next one.

One at a time, because that is what keeps events in order: of two batches under way, the second could arrive
while the first has to be sent again. It costs little: the busier the server, the larger the next batch.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Final

from backstay.agents.http_answers import HttpAnswer, error_for, is_transient
from backstay.agents.http_requests import HttpRequest, Service, Terms
from backstay.clock import Clock
from backstay.domain.durations import describe
from backstay.domain.retry import Retry
from backstay.errors import BackstayError, HttpFailed, HttpUnavailable, Unavailable
from backstay.producing.answers import Garbled, outcomes

#: Of one batch. A server tells of so many events, each by itself, why it refused them.
BATCH_EVENTS_MAX: Final = 1_000
BATCH_BYTES_MAX: Final = 1024 * 1024
ANSWER_TIME: Final = timedelta(seconds=30)

_BACK_OFF: Final = Retry(attempts=1_000, first="100ms", factor=2, cap="5s")
_NDJSON: Final = {"Content-Type": "application/x-ndjson"}

Send = Callable[[HttpRequest], Awaitable[HttpAnswer]]


@dataclass(slots=True, eq=False)
class Entry:
    """An event on its way, and whoever waits to hear of it."""

    id: str
    line: bytes
    done: asyncio.Future[str]


class Lane:
    """Sends what is entered, in that order, until it is accepted, refused, or nobody may wait any longer."""

    def __init__(
        self,
        stream: str,
        service: Service,
        send: Send,
        *,
        clock: Clock,
        give_up_after: timedelta,
        left: Callable[[Entry], None],
    ) -> None:
        self._stream = stream
        self._send = send
        self._clock = clock
        self._give_up_after = give_up_after
        self._left = left
        self._chance = Random().random  # noqa: S311  Only delays are drawn.
        self._entries: deque[Entry] = deque()
        self._called = asyncio.Event()
        terms = Terms(time=ANSWER_TIME, headers={"Accept": "application/json"})
        self._empty = service.request(
            "POST",
            ("v1", "streams", stream, "events"),
            terms=terms,
            json=None,
            params=None,
            headers=_NDJSON,
        )

    def enter(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._called.set()

    async def run(self) -> None:
        while True:
            await self._called.wait()
            # Those who are about to enter, in this very moment, come along.
            await asyncio.sleep(0)
            self._called.clear()
            while batch := self._next_batch():
                await self._deliver(batch)

    def _next_batch(self) -> list[Entry]:
        batch: list[Entry] = []
        size = 0
        while self._entries and len(batch) < BATCH_EVENTS_MAX:
            entry = self._entries[0]
            if entry.done.cancelled():  # Whoever waited for it has left before it was sent.
                self._left(self._entries.popleft())
                continue
            size += len(entry.line) + 1
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(self._entries.popleft())
        return batch

    async def _deliver(self, batch: list[Entry]) -> None:
        ids = [entry.id for entry in batch]
        found: list[BackstayError | None]
        body = b"\n".join([entry.line for entry in batch])
        try:
            answer = await self._answered(dataclasses.replace(self._empty, body=body))
            found = outcomes(answer, self._stream, ids)
        except (Unavailable, HttpFailed, Garbled) as error:
            found = [self._lost(error, one) for one in ids]
        for entry, refused in zip(batch, found, strict=True):
            self._left(entry)
            _tell(entry, refused)

    def _lost(self, error: Exception, id: str) -> Unavailable:
        return Unavailable(
            f"nobody knows whether event {id!r} is in stream {self._stream!r}: {error};"
            " send it again with this id, which adds it once within the stream's window"
        )

    async def _answered(self, request: HttpRequest) -> HttpAnswer:
        """An answer that is one. Sends again while there is none, and after a refusal that may pass."""
        began, tries = self._clock.monotonic(), 0
        while True:
            tries += 1
            try:
                answer = await self._send(request)
                if not is_transient(answer.status):
                    return answer
                trouble = error_for(answer, now=self._clock.now())
            except HttpUnavailable as error:
                trouble = error
            assert isinstance(trouble, HttpUnavailable)
            await self._pause(trouble, tries, began)

    async def _pause(self, trouble: HttpUnavailable, tries: int, began: float) -> None:
        delay = _BACK_OFF.delay_after(tries, self._chance, retry_after=trouble.retry_after)
        left = self._give_up_after.total_seconds() - (self._clock.monotonic() - began)
        # Nor is a server waited for that wants to be left alone for longer than that.
        if delay is None or delay.total_seconds() > left:
            raise Unavailable(f"{trouble}; given up within {describe(self._give_up_after)}")
        await asyncio.sleep(delay.total_seconds())


def _tell(entry: Entry, refused: BackstayError | None) -> None:
    if entry.done.done():  # Whoever waited for it has left.
        return
    if refused is None:
        entry.done.set_result(entry.id)
    else:
        entry.done.set_exception(refused)
