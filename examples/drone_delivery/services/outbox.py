"""What happens in a service, told to the world: as events on a stream of the server at ``BACKSTAY_URL``.

It is put into the service's own file in the transaction in which it happens, and stays there until it is on
the stream. So it is told, whatever dies, and told in order; and since its id is the same each time, it is
there once. Without a server it waits in the file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

import msgspec

from drone_delivery.services.file import ServiceFile

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS outbox (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    content TEXT NOT NULL  -- JSON
) STRICT;
"""

AT_ONCE: Final = 500
#: How often is looked whether something happened; and after a server that cannot be told.
_LOOK_SECONDS: Final = 0.05
_AGAIN_SECONDS: Final = 0.5

_PUT: Final = "INSERT INTO outbox (number, key, content) VALUES (?, ?, ?)"
_OLDEST: Final = "SELECT number, key, content FROM outbox ORDER BY number LIMIT ?"
_TOLD: Final = "DELETE FROM outbox WHERE number <= ?"


def put(file: ServiceFile, number: int, *, key: str, content: object) -> None:
    """To be told; numbers only ever grow, and a key's events stay in their order."""
    file.execute(_PUT, (number, key, msgspec.json.encode(content).decode()))


async def tell(file: ServiceFile, stream: str) -> None:
    """Tell what there is, and whatever happens from now on, until cancelled."""
    url = os.environ.get("BACKSTAY_URL")
    if url is None:
        return
    # Only who tells something needs it, and it takes longer to import than the rest of a service.
    from backstay import Producer  # noqa: PLC0415

    async with Producer(url, stream=stream, token=os.environ.get("BACKSTAY_TOKEN")) as producer:
        while True:
            waiting = file.execute(_OLDEST, (AT_ONCE,))
            told = await _told(producer, waiting)
            if told:
                file.execute(_TOLD, (waiting[told - 1][0],))
            await asyncio.sleep(_LOOK_SECONDS if told == len(waiting) else _AGAIN_SECONDS)


async def _told(producer: Any, waiting: Sequence[tuple[int, str, str]]) -> int:
    """How many of them are on the stream, beginning with the first."""
    from backstay import Event  # noqa: PLC0415

    outcomes = await producer.send_all(
        Event(body=msgspec.json.decode(content), key=key, id=f"{key}:{number}")
        for number, key, content in waiting
    )
    # An outcome is the event's id, or why it is not there: then it is told again, before all that follow.
    return sum(1 for _ in takewhile(lambda outcome: isinstance(outcome, str), outcomes))
