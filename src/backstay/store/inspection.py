"""What a state store tells of itself, to whoever checks it (``store.checking``)."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Reached(msgspec.Struct, frozen=True):
    """How far a group has got in a unit of a stream, and in which log."""

    stream: str
    group: str
    partition: int
    slot: int
    checkpoint: int | None
    log: str

    @property
    def place(self) -> tuple[str, str, int, int]:
        return self.stream, self.group, self.partition, self.slot


class Inspection(Protocol):
    """What a store says of itself. Each method sees a single moment, and changes nothing."""

    async def page_of_keys(self, *, after: int, size: int) -> tuple[int, int]:
        """Where the next page of tasks ends (at ``after``: there is no more), and the last key of all."""

    async def broken(self, query: str, *, after: int, through: int, limit: int) -> list[tuple[str, str]]:
        """What a rule finds: of each an id, and a word about it."""

    async def reached(self, *, after: tuple[str, str, int, int], limit: int) -> list[Reached]:
        """How far groups have got, by stream, group, partition and slot."""

    async def integrity(self, *, limit: int) -> list[str]:
        """What the database itself says is wrong with what it keeps; nothing where it looks after that."""
