"""The verbs of a log, on a file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from backstay.domain.instants import micros
from backstay.domain.stream import (
    Appended,
    EventRecord,
    NewEvent,
    PartitionStanding,
    Slice,
    Stream,
    StreamStanding,
)
from backstay.errors import BackstayError, Closed, Conflict, UnknownStream
from backstay.messaging.embedded.batch import prepare
from backstay.messaging.embedded.forgetting import STEP, give_back, trim
from backstay.messaging.embedded.placing import Answers, Append, Settle
from backstay.messaging.embedded.reading import Reads, Wanted
from backstay.messaging.embedded.rows import as_json, event_record, stream_of, terms_of
from backstay.messaging.embedded.tables import Tables
from backstay.messaging.embedded.writer import Boundary, Writer
from backstay.messaging.stream import Caller
from backstay.sql.queries import load_queries
from backstay.sql.sqlite.connection import connect, path_of, translated
from backstay.sql.sqlite.readers import Readers
from backstay.sql.sqlite.schema import is_store, migrate

# Of the thread that writes. Ids are looked up, and put, all over the pages of a slot.
CACHE_KIB: Final = 32 * 1024

_PACKAGE: Final = "backstay.messaging.embedded"

Answer = TypeVar("Answer")

_decode_partitions: Final = msgspec.json.Decoder(list[tuple[int, int, int, int, int]]).decode


class EmbeddedLog:
    """Streams in one file, made when the first of them is declared. Processes of one host may share it."""

    def __init__(self, url: str, *, boundary: Boundary | None = None) -> None:
        self._path = path_of(url, setting="streams")
        self._boundary = boundary
        self._queries = load_queries(_PACKAGE)
        self._listeners: list[Caller] = []
        self._is_open = False
        self._opening = asyncio.Lock()
        self._writer: Writer | None = None
        self._readers: Readers[Tables] | None = None
        self._reads: Reads | None = None

    @property
    def path(self) -> Path:
        return self._path

    async def open(self, *, must_exist: bool = False) -> None:  # noqa: ARG002  Nothing is created here anyway.
        self._is_open = True
        await self._find()

    async def close(self) -> None:
        self._is_open = False
        async with self._opening:
            if self._writer is not None:
                await self._writer.close()
                self._writer = None
            if self._readers is not None:
                await self._readers.close()
                self._readers = self._reads = None

    # What there is

    async def declare(self, stream: Stream, *, now: datetime) -> bool:
        writer = await self._find(make=True)
        assert writer is not None
        return await writer.call(partial(_declare, stream=stream, now=now))

    async def stream(self, name: str) -> Stream:
        def look(tables: Tables) -> Stream:
            found = tables.one("find_stream", name=name)
            if found is None:
                raise UnknownStream(name)
            return stream_of(found[1:])

        return await self._read(look, absent=UnknownStream(name))

    async def identity(self, stream: str) -> str:
        def look(tables: Tables) -> str:
            found = tables.one("identity_of", name=stream)
            if found is None:
                raise UnknownStream(stream)
            return str(found[0])

        return await self._read(look, absent=UnknownStream(stream))

    async def standings(
        self, *, names: Sequence[str] | None = None, after: str = "", limit: int
    ) -> list[StreamStanding]:
        def look(tables: Tables) -> list[StreamStanding]:
            if names is None:
                found = tables.run("list_streams", after=after, limit=limit).fetchall()
            else:
                wanted = as_json(names)
                found = tables.run("list_named_streams", names=wanted, after=after, limit=limit).fetchall()
            return _standings(tables, found)

        return await self._read(look, absent=[])

    # The way in

    async def append(
        self, stream: str, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Appended | BackstayError]:
        writer = self._writer or await self._find()
        if writer is None:
            raise UnknownStream(stream)
        if not writer.has_room():
            await writer.room()
        future: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        writer.post(_appending(stream, events, micros(now), partial(_resolve, future)))
        return await future

    def post(self, stream: str, events: Sequence[NewEvent], settle: Settle, *, at: int) -> None:
        """As ``append``, for those who would rather be called: with the answers, or with why there are none.

        Takes what it is given at once. Who can wait asks whether it ``has_room``, or awaits ``room``, first.
        """
        if not self._is_open:
            raise self._closed()
        if self._writer is None:
            settle(UnknownStream(stream))
        else:
            self._writer.post(_appending(stream, events, at, settle))

    def has_room(self) -> bool:
        """Whether what was handed in and is not yet durable is little enough for more."""
        return self._writer is None or self._writer.has_room()

    async def room(self) -> None:
        """Come back when it has room."""
        if self._writer is not None and not self._writer.has_room():
            await self._writer.room()

    # The way out

    async def read(self, stream: str, partition: int, *, start: int, limit: int, bytes_max: int) -> Slice:
        if self._reads is None:
            await self._find()
        if self._reads is None:
            raise UnknownStream(stream, partition=partition)
        return await self._reads.read(Wanted(stream, partition, start, limit, bytes_max))

    async def oldest(self, stream: str, starts: Mapping[int, int]) -> dict[int, EventRecord]:
        def look(tables: Tables) -> dict[int, EventRecord]:
            found = tables.run("oldest_events", stream=stream, starts=as_json([*starts.items()]))
            return {row[0]: event_record(row) for row in found}

        return await self._read(look, absent={})

    def listen(self, caller: Caller) -> Callable[[], None]:
        self._listeners.append(caller)
        if self._writer is not None:
            self._writer.attend()
        return lambda: self._listeners.remove(caller)

    # Forgetting

    async def trim(self, stream: str, floors: Mapping[int, int], *, now: datetime, limit: int) -> int:
        writer = await self._find()
        if writer is None:
            return 0
        at, gone = micros(now), 0
        while gone < limit:
            step = partial(trim, name=stream, floors=floors, now=at, limit=min(STEP, limit - gone))
            removed = await writer.call(step)
            if not removed:
                break
            gone += removed
        await writer.call(give_back, within=False)
        return gone

    # Underneath

    async def _find(self, *, make: bool = False) -> Writer | None:
        """The writer of the file, which another process may have made meanwhile; None while there is none."""
        if not self._is_open:
            raise self._closed()
        if self._writer is not None:
            return self._writer
        async with self._opening:
            if self._writer is None:
                self._writer = await self._opened(make=make)
        if not self._is_open:
            raise self._closed()
        return self._writer

    async def _opened(self, *, make: bool) -> Writer | None:
        connection = await asyncio.to_thread(self._prepare, make=make)
        if connection is None:
            return None
        self._readers = Readers(self._path, self._tables)
        self._reads = Reads(self._readers)
        return Writer(
            self._tables(connection), self._path, listeners=self._listeners, boundary=self._boundary
        )

    def _prepare(self, *, make: bool) -> sqlite3.Connection | None:
        try:
            if not make and not is_store(self._path):
                return None
            connection = connect(self._path, readonly=False, shrinks=True)
            try:
                migrate(connection, _PACKAGE)
                prepare(connection, self._queries)
                connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        return connection

    async def _read(self, look: Callable[[Tables], Answer], *, absent: Answer | BackstayError) -> Answer:
        """What ``look`` finds; ``absent``, where there is no file to look into."""
        if self._readers is None:
            await self._find()
        if self._readers is not None:
            return await self._readers.read(look)
        if isinstance(absent, BackstayError):
            raise absent
        return absent

    def _tables(self, connection: sqlite3.Connection) -> Tables:
        return Tables(connection, self._queries)

    def _closed(self) -> Closed:
        return Closed(f"{self._path.name} is not open")


def _declare(tables: Tables, *, stream: Stream, now: datetime) -> bool:
    found = tables.one("find_stream", name=stream.name)
    if found is None:
        [key] = tables.one(
            "insert_stream",
            name=stream.name,
            partitions=stream.partitions,
            now=micros(now),
            **terms_of(stream),
        )
        tables.run_rows("insert_partitions", [(key, number) for number in range(stream.partitions)])
        return True
    known = stream_of(found[1:])
    if known.partitions != stream.partitions:
        raise Conflict(
            f"stream {stream.name!r} has {known.partitions} partitions, and keeps them: a key would lead"
            f" elsewhere with {stream.partitions}; declare it with as many as it has, or under another name"
        )
    if known != stream:
        tables.run("change_terms", key=found[0], **terms_of(stream))
    return False


def _standings(tables: Tables, found: list[Any]) -> list[StreamStanding]:
    standings = {row[0]: StreamStanding(stream=stream_of(row[1:]), partitions=[]) for row in found}
    [partitions] = tables.one("list_partitions", streams=as_json([*standings]))
    for key, number, first, end, size in _decode_partitions(partitions):
        standings[key].partitions.append(
            PartitionStanding(partition=number, first=first, end=end, bytes=size)
        )
    return [*standings.values()]


def _appending(stream: str, events: Sequence[NewEvent], at: int, settle: Settle) -> Append:
    # Many come alone.
    size = len(events[0].body) if len(events) == 1 else sum([len(event.body) for event in events])
    return Append(stream, events, at, size, settle)


def _resolve(future: asyncio.Future[Answers], answer: Answers | BackstayError) -> None:
    if future.done():
        return  # The caller no longer waits; what it appended stays.
    if isinstance(answer, BackstayError):
        future.set_exception(answer)
    else:
        future.set_result(answer)
