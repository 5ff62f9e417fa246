"""What a service keeps by id, and the rule that cancelled stays cancelled.

An undo can overtake the request that it undoes: a caller that got no answer gives up and cancels, while its
request is still somewhere on the network. If that request took effect when it arrives at last, nobody would
undo it again. So an id that was cancelled is remembered, also when nothing was there to cancel, and whatever
arrives for it later is refused and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

import msgspec

from drone_delivery.services.file import ServiceFile

Content = TypeVar("Content")


class Kept(Enum):
    """What became of something that was to be kept."""

    NEW = auto()
    REPLACED = auto()
    REFUSED = auto()  # the id is cancelled


class Cancelled(Enum):
    """What a cancellation met."""

    LIVE = auto()
    CANCELLED = auto()
    NOTHING = auto()  # and nothing will ever be kept under this id


@dataclass(frozen=True, slots=True)
class Record:
    content: str
    cancelled: bool

    def read(self, kind: type[Content]) -> Content:
        return msgspec.json.decode(self.content, type=kind)


def keep(file: ServiceFile, id: str, *, content: object) -> Kept:
    """Keep ``content`` under ``id`` instead of what was there, unless the id is cancelled."""
    encoded = msgspec.json.encode(content).decode()
    rows = file.execute("SELECT cancelled FROM record WHERE id = ?", (id,))
    if not rows:
        file.execute("INSERT INTO record (id, content) VALUES (?, ?)", (id, encoded))
        return Kept.NEW
    [(cancelled,)] = rows
    if cancelled:
        return Kept.REFUSED
    file.execute("UPDATE record SET content = ? WHERE id = ?", (encoded, id))
    return Kept.REPLACED


def cancel(file: ServiceFile, id: str) -> Cancelled:
    rows = file.execute("SELECT content IS NOT NULL, cancelled FROM record WHERE id = ?", (id,))
    if not rows:
        file.execute("INSERT INTO record (id, cancelled) VALUES (?, 1)", (id,))
        return Cancelled.NOTHING
    [(created, cancelled)] = rows
    if not created:
        return Cancelled.NOTHING
    if cancelled:
        return Cancelled.CANCELLED
    file.execute("UPDATE record SET cancelled = 1 WHERE id = ?", (id,))
    return Cancelled.LIVE


def find(file: ServiceFile, id: str) -> Record | None:
    """What was created under this id, cancelled or not."""
    rows = file.execute("SELECT content, cancelled FROM record WHERE id = ? AND content IS NOT NULL", (id,))
    return next((Record(content, bool(cancelled)) for content, cancelled in rows), None)


def find_live(file: ServiceFile, id: str) -> Record | None:
    record = find(file, id)
    return None if record is None or record.cancelled else record
