"""A stream as programs hold it: what ``app.stream`` gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from backstay.definitions.pipelines import Pipeline
from backstay.domain.stream import Appended, Event, Unread
from backstay.errors import BackstayError, InvalidDefinition
from backstay.messaging.streams import Streams, as_event

READ_USUAL: Final = 100


class Begin(Protocol):
    """Begins a pipeline."""

    def __call__(self, stream: str, group: str, *, readers: int) -> Pipeline: ...


class StreamHandle:
    """A stream: append to it, read it, have a pipeline read it."""

    def __init__(self, name: str, streams: Callable[[], Streams], *, begin: Begin | None = None) -> None:
        self.name = name
        self._streams = streams
        self._begin = begin

    def __repr__(self) -> str:
        return f"StreamHandle({self.name!r})"

    async def append(
        self,
        body: Any = None,
        *,
        key: str | None = None,
        id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Appended:
        """Append an event; it is durable once this comes back.

        Events of one ``key`` stay in order. With an ``id`` it is appended once within the stream's
        ``dedup`` window, however often it is tried; with other content it raises EventConflict.
        """
        return await self._streams().append(self.name, body, key=key, id=id, headers=headers)

    async def append_all(self, events: Iterable[Event]) -> list[Appended | BackstayError]:
        """Append many events in their order; of each where it is, or why it was refused."""
        return await self._streams().append_all(self.name, events)

    async def read(self, partition: int, *, start: int = 0, limit: int = READ_USUAL) -> list[Event]:
        """Events of one partition from the offset ``start`` on; who reads moves nothing."""
        await self._streams().make(self.name)
        found = await self._streams().read(self.name, partition, start=start, limit=limit)
        return [as_event(record) for record in found.events]

    async def unread(self, group: str, *, key: str, limit: int = READ_USUAL) -> Unread:
        """The events of ``key`` among the next ``limit`` that a group has yet to pass in the key's partition.

        For whoever must know whether something is still under way. When ``more`` is set, there may be some
        beyond those that were looked through.
        """
        return await self._streams().unread(self.name, group, key=key, limit=limit)

    def source(self, group: str, *, readers: int = 1) -> Pipeline:
        """Begin a pipeline that reads this stream for a group, wherever the role ``ingest`` runs.

        With several ``readers`` as many share each partition: every one reads all of it, and processes the
        events of its own keys.
        """
        if self._begin is None:
            raise InvalidDefinition(
                f"stream {self.name!r} is a client's; a pipeline is declared with app.stream({self.name!r})"
            )
        return self._begin(self.name, group, readers=readers)
