"""Readers of a stream that stand still in the middle of a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from backstay.domain.stream import GroupStanding, Holding
from backstay.errors import BackstayError
from backstay.store.groups import Advanced
from backstay.testing import ManualClock
from backstay.testing.promises.holder import Holder
from backstay.testing.promises.readers import Reader, a_start
from tests.integration.postgres.schema import OpenStore, Threshold

STARTS = [a_start(f"t{number}", number) for number in range(5)]


class Stalled:
    """A reader whose transactions a test can stop just before their COMMIT."""

    def __init__(self, reader: Reader, threshold: Threshold) -> None:
        self.reader = reader
        self.threshold = threshold

    @classmethod
    async def joined(cls, opened: OpenStore, clock: ManualClock, name: str) -> Stalled:
        threshold = Threshold()
        store = await opened(boundary=threshold)
        holder = await Holder.joined(store, clock, name)
        return cls(Reader(store, clock, holder.owner), threshold)

    async def advancing(self, held: Holding, **made: Any) -> asyncio.Task[Advanced | BackstayError]:
        """An advance that stands there."""
        self.threshold.close()
        advancing = asyncio.create_task(self.reader.advance(held, **{"to": 5, "starts": STARTS, **made}))
        await self.threshold.reached()
        return advancing

    async def holding(self, *partitions: int) -> asyncio.Task[list[Holding]]:
        """Taking what is free of these, as it stands there."""
        return await self.taking(await self.reader.free(*partitions))

    async def taking(self, units: Sequence[GroupStanding]) -> asyncio.Task[list[Holding]]:
        """Taking these, whoever has them, as it stands there."""
        self.threshold.close()
        taking = asyncio.create_task(self.reader.take(*units))
        await self.threshold.reached()
        return taking

    def go_on(self) -> None:
        self.threshold.open()
