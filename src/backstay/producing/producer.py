"""What a program sends events with."""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from random import Random
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from backstay.agents.http_answers import HttpAnswer
from backstay.agents.http_requests import HttpRequest, Service
from backstay.clock import Clock, SystemClock
from backstay.definitions.codec import encode
from backstay.domain.durations import Duration, duration
from backstay.domain.ids import new_id
from backstay.domain.stream import Event, checked_headers, checked_key
from backstay.domain.task import check_id
from backstay.errors import BackstayError, Closed, InvalidRequest
from backstay.producing.answers import is_read
from backstay.producing.lane import Entry, Lane

STREAMS_MAX: Final = 64
IN_FLIGHT_MOST: Final = 1_000_000
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
#: Of the events that are under way; whatever their number.
IN_FLIGHT_BYTES_MAX: Final = 64 * 1024 * 1024


class Producer:
    """Sends events to a stream of a server, in batches that make themselves.

        async with Producer("http://127.0.0.1:8080", stream="orders") as producer:
            await producer.send({"order": 7}, key="ann")

    An event is sent at once when nothing is under way; what comes while a batch is under way is the next
    batch. Events of one key stay in the order in which they were handed in. Every event has an id, so
    that one that had to be sent again is there once. At most ``in_flight`` events are under way: who sends
    more waits. With several ``streams`` an event goes to that of its key.

    A server that does not answer is asked again for ``give_up_after``, which should be less than the
    streams' ``dedup`` window.
    """

    def __init__(
        self,
        url: str,
        *,
        stream: str | None = None,
        streams: Sequence[str] | None = None,
        token: str | None = None,
        in_flight: int = 10_000,
        give_up_after: Duration = "5m",
        clock: Clock | None = None,
    ) -> None:
        self._names = _names(stream, streams)
        if not 1 <= in_flight <= IN_FLIGHT_MOST:
            raise InvalidRequest(f"in_flight is {in_flight}; it must be 1 to {IN_FLIGHT_MOST:,}")
        self._service = Service(url, headers={} if token is None else {"Authorization": f"Bearer {token}"})
        self._give_up_after = duration(give_up_after, name="give_up_after", least=timedelta(milliseconds=1))
        self._room = _Room(in_flight)
        self._clock = clock or SystemClock()
        self._random_bits = Random().getrandbits  # noqa: S311  Ids are no secrets.
        self._turn = 0
        self._lanes: list[Lane] = []
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        # It brings aiohttp, which takes longer to import than all the rest.
        from backstay.agents.http_client import HttpClient  # noqa: PLC0415

        self._http = HttpClient(connections=len(self._names), response_bytes_max=ANSWER_BYTES_MAX)
        self._lanes = [self._lane(name) for name in self._names]
        self._running = [asyncio.create_task(lane.run(), name="backstay-producer") for lane in self._lanes]
        return self

    def _lane(self, stream: str) -> Lane:
        return Lane(
            stream,
            self._service,
            self._send,
            clock=self._clock,
            give_up_after=self._give_up_after,
            left=self._room.leave,
        )

    async def _send(self, request: HttpRequest) -> HttpAnswer:
        return await self._http.send(request, accepts=is_read, keep_open=True)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Whatever is under way is waited for; not when the block ended with an error."""
        if error is None:
            await self.flush()
        await self._close()

    async def flush(self) -> None:
        """Wait until every event that was handed in is accepted or refused."""
        await self._room.emptied()

    async def _close(self) -> None:
        lanes, self._lanes = self._running, []
        for task in lanes:
            task.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)
        self._room.abandon(Closed("the producer was closed before this event was accepted"))
        await self._http.close()

    # Send

    async def send(
        self,
        body: Any = None,
        *,
        key: str | None = None,
        id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Send an event; its id comes back once it is durable.

        Raises what is wrong with this very event: EventConflict, UnknownStream, InvalidInput and their
        kin; Unavailable when the server gave no answer for too long, and nobody knows.
        """
        return await (await self._hand_in(body, key=key, id=id, headers=headers))

    async def send_all(self, events: Iterable[Event]) -> list[str | BackstayError]:
        """Send many, in their order; of each its id once it is durable, or why it was refused."""
        loop = asyncio.get_running_loop()
        handed_in: list[asyncio.Future[str]] = []
        for one in events:
            try:
                entered = await self._hand_in(one.body, key=one.key, id=one.id, headers=one.headers or None)
            except InvalidRequest as error:
                entered = loop.create_future()
                entered.set_exception(error)
            handed_in.append(entered)
        found = await asyncio.gather(*handed_in, return_exceptions=True)
        return [_outcome(one) for one in found]

    async def _hand_in(
        self, body: Any, *, key: str | None, id: str | None, headers: Mapping[str, str] | None
    ) -> asyncio.Future[str]:
        """Wait for room, and put an event on its way."""
        if not self._lanes:
            raise Closed("the producer is not open; send inside `async with Producer(…)`")
        line = self._line(body, key=key, id=id, headers=headers)
        entry = Entry(line.id, msgspec.json.encode(line), asyncio.get_running_loop().create_future())
        await self._room.enter(entry, self._lane_of(key, id))
        return entry.done

    def _line(
        self, body: Any, *, key: str | None, id: str | None, headers: Mapping[str, str] | None
    ) -> _Line:
        return _Line(
            body=msgspec.Raw(encode(body, "body of an event")),
            key=None if key is None else checked_key(key),
            id=new_id(self._clock.now(), self._random_bits) if id is None else check_id(id),
            headers=None if headers is None else checked_headers(headers),
        )

    def _lane_of(self, key: str | None, id: str | None) -> Lane:
        """By the key; by the id, so that a repetition meets the first; else by turns."""
        name = key if key is not None else id
        if name is not None:
            return self._lanes[zlib.crc32(name.encode()) % len(self._lanes)]
        self._turn += 1
        return self._lanes[self._turn % len(self._lanes)]


class _Line(msgspec.Struct, omit_defaults=True):
    body: msgspec.Raw
    id: str
    key: str | None = None
    headers: dict[str, str] | None = None


class _Room:
    """So many events may be under way, and so many bytes of them. Who comes first is let in first."""

    def __init__(self, events_max: int) -> None:
        self._events_max = events_max
        self._inside: set[Entry] = set()
        self._bytes = 0
        self._queue: deque[tuple[Entry, Lane, asyncio.Future[None]]] = deque()
        self._empty = asyncio.Event()
        self._empty.set()

    async def enter(self, entry: Entry, lane: Lane) -> None:
        """Put an event on its way as soon as there is room for it."""
        if not self._queue and self._has_room_for(entry):
            self._let_in(entry, lane)
            return
        let_in = asyncio.get_running_loop().create_future()
        self._queue.append((entry, lane, let_in))
        await let_in

    def leave(self, entry: Entry) -> None:
        self._inside.discard(entry)
        self._bytes -= len(entry.line)
        # Let in from here, one after the other: so they stay in the order in which they came.
        while self._queue and self._has_room_for(self._queue[0][0]):
            waiting, lane, let_in = self._queue.popleft()
            if not let_in.done():  # Else whoever waited has left.
                let_in.set_result(None)
                self._let_in(waiting, lane)
        if not self._inside:
            self._empty.set()

    async def emptied(self) -> None:
        await self._empty.wait()

    def abandon(self, error: BackstayError) -> None:
        """Nothing more becomes of what is inside, or waits to be."""
        for entry in self._inside:
            if not entry.done.done():
                entry.done.set_exception(error)
        for _, _, let_in in self._queue:
            if not let_in.done():
                let_in.set_exception(error)

    def _has_room_for(self, entry: Entry) -> bool:
        if not self._inside:
            return True  # However large it is.
        return len(self._inside) < self._events_max and self._bytes + len(entry.line) <= IN_FLIGHT_BYTES_MAX

    def _let_in(self, entry: Entry, lane: Lane) -> None:
        self._inside.add(entry)
        self._bytes += len(entry.line)
        self._empty.clear()
        lane.enter(entry)


def _names(stream: str | None, streams: Sequence[str] | None) -> list[str]:
    if (stream is None) is (streams is None):
        raise InvalidRequest("a producer sends to one stream, or to several: give stream=… or streams=[…]")
    names = [stream] if stream is not None else list(streams or ())
    if not 1 <= len(names) <= STREAMS_MAX or len(set(names)) < len(names):
        raise InvalidRequest(f"streams has {len(names)} names; it must have 1 to {STREAMS_MAX}, each once")
    return [check_id(name, name="name of the stream") for name in names]


def _outcome(found: str | BaseException) -> str | BackstayError:
    if isinstance(found, (str, BackstayError)):
        return found
    raise found
