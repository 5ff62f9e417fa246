"""Takes partitions for a group, and notices which were lost.

The holder of a partition is this process's instance: as long as that gives signs of life, nobody else takes
it. What a dead process held is free as soon as it is known to be dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from backstay.domain.stream import Group, Holding
from backstay.errors import UnknownStream
from backstay.ingest.streams.services import Services

# How often it is looked whether partitions have become free, while some are missing.
LOOK_SECONDS: Final = 1.0


class Holder:
    """All partitions of a stream that this process reads for a group."""

    def __init__(self, group: Group, services: Services) -> None:
        self.group = group
        self._services = services
        self._partitions = 0
        self._log = ""
        self._held = 0

    async def run_once(self) -> list[Holding]:
        """Take what is free; all that is ours by now.

        Raises OtherLog, and LeaseLost if this instance was declared dead.
        """
        services = self._services
        if not self._partitions:
            await services.streams.make(self.group.stream)
            stream = await services.streams.find(self.group.stream)
            if stream is None:
                raise UnknownStream(self.group.stream)
            self._log = await services.streams.log.identity(self.group.stream)
            self._partitions = stream.partitions
        held = await services.store.groups.hold(
            self.group,
            [*range(self._partitions)],
            log=self._log,
            owner=services.owner,
            lease=services.settings.lease,
            now=services.clock.now(),
        )
        self._held = len(held)
        return held

    def pause_seconds(self) -> float:
        """When to look next: while nothing is missing, nothing can be taken."""
        if self._held < self._partitions:
            return LOOK_SECONDS
        return max(LOOK_SECONDS, self._services.settings.heartbeat.total_seconds())

    async def release(self, holdings: Sequence[Holding]) -> None:
        """Let others take these at once."""
        services = self._services
        await services.store.groups.release(holdings, owner=services.owner, now=services.clock.now())
