"""``backstay streams tail``: events as they come."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from backstay.cli.access import StreamDesk
from backstay.cli.render import note, print_json_line, say
from backstay.cli.stream_tables import event_line
from backstay.errors import Unavailable, UnknownStream
from backstay.streamroom import EventPage

LOOK_SECONDS: Final = 0.5
PAGE: Final = 500


class Tail:
    """Shows events of a stream, one line each; of one partition in their order."""

    def __init__(self, desk: StreamDesk, stream: str, *, json: bool, limit: int | None) -> None:
        self._desk = desk
        self._stream = stream
        self._json = json
        self._left = limit

    async def run(self, *, partition: int | None, start: int | None, follow: bool) -> None:
        places = await self._begin(partition, start)
        while True:
            came = await self._show(places)
            if self._left == 0 or not (came or follow):
                return
            if not came:
                await asyncio.sleep(LOOK_SECONDS)

    async def _begin(self, partition: int | None, start: int | None) -> dict[int, int]:
        """Where to read on, by partition."""
        view = await self._desk.stream(self._stream)
        places = {
            one.partition: one.end if start is None else min(start, one.end)
            for one in view.partitions
            if partition in (None, one.partition)
        }
        if not places:
            raise UnknownStream(self._stream, partition=partition)
        return places

    async def _show(self, places: dict[int, int]) -> bool:
        """One look at every partition; whether there was anything."""
        came = False
        for partition, start in places.items():
            if self._left == 0:
                break
            page = await self._look(partition, start)
            for event in page.items:
                self._tell(partition, event)
                places[partition] = event.offset + 1
            came = came or bool(page.items)
        return came

    async def _look(self, partition: int, start: int) -> EventPage:
        """A store or a server that is away for a moment does not end the showing."""
        limit = PAGE if self._left is None else min(PAGE, self._left)
        away = False
        while True:
            try:
                page = await self._desk.events(self._stream, partition, start=start, limit=limit)
            except Unavailable as error:
                if not away:
                    note(f"{error}; still trying")
                away = True
                await asyncio.sleep(LOOK_SECONDS)
            else:
                if self._left is not None:
                    self._left -= len(page.items)
                return page

    def _tell(self, partition: int, event: Any) -> None:
        if self._json:
            print_json_line({"partition": partition, **msgspec.to_builtins(event)})
        else:
            say(event_line(partition, event))
