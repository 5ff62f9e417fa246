"""Appending for those who do not wait but are called: the hot route of the HTTP interface."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from backstay.clock import Clock
from backstay.domain.stream import Appended, NewEvent
from backstay.errors import BackstayError
from backstay.messaging.streams import Streams, count_appended

Answers = list[Appended | BackstayError]
#: Told what became of events, on the event loop: the answer to each, or why none of them was appended.
Settle = Callable[[Answers | BackstayError], None]


@runtime_checkable
class PostingLog(Protocol):
    """What a log may be able to do beside the verbs of ``Log``: append without a task for each who waits."""

    def post(self, stream: str, events: Sequence[NewEvent], settle: Settle, *, at: int) -> None:
        """As ``append``, at an instant in microseconds (``domain.instants``). Raises Closed."""

    def has_room(self) -> bool:
        """Whether what was handed in and is not yet durable is little enough for more."""


class Posting:
    """Appends to the streams of one log; of a log that cannot be posted to, with a task per append."""

    def __init__(self, streams: Streams, clock: Clock) -> None:
        self._streams = streams
        self._clock = clock
        self._log = streams.log if isinstance(streams.log, PostingLog) else None
        self._appends: set[asyncio.Task[None]] = set()

    def takes(self, stream: str) -> bool:
        """Whether events may be posted at once: nothing is to be waited for, or made, before."""
        return self._streams.is_made(stream) and (self._log is None or self._log.has_room())

    def post(self, stream: str, events: Sequence[NewEvent], settle: Settle) -> None:
        """Append events that were checked; ``settle`` is called once, be it at once."""
        if self._log is None:
            appending = asyncio.get_running_loop().create_task(self._append(stream, events, settle))
            self._appends.add(appending)
            appending.add_done_callback(self._appends.discard)
            return
        try:
            self._log.post(stream, events, partial(_settle, stream, settle), at=self._clock.micros())
        except BackstayError as error:
            settle(error)

    async def _append(self, stream: str, events: Sequence[NewEvent], settle: Settle) -> None:
        try:
            answers = await self._streams.append_events(stream, events)
        except BackstayError as error:
            settle(error)
        else:
            settle(answers)


def _settle(stream: str, settle: Settle, answers: Answers | BackstayError) -> None:
    if not isinstance(answers, BackstayError):
        count_appended(stream, answers)
    settle(answers)
