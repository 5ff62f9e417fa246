"""The role ``ingest`` of a process: all its consumers."""

from __future__ import annotations

import asyncio

from backstay.clock import Clock
from backstay.definitions.registry import Registry
from backstay.ingest.consumer import Consumer
from backstay.messaging.exchange import Exchange


class Ingest:
    """One consumer for each queue that the application has a handler for."""

    def __init__(self, registry: Registry, exchange: Exchange, *, clock: Clock) -> None:
        self.consumers = [Consumer(one, exchange, clock=clock) for one in registry.consumers.values()]

    async def run(self) -> None:
        """All of them, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for consumer in self.consumers:
                group.create_task(consumer.run(), name=f"backstay-consumer {consumer.queue}")

    async def run_once(self) -> int:
        """One turn of each; how many messages were handled."""
        return sum([await consumer.run_once() for consumer in self.consumers])

    async def drain(self) -> None:
        """Receive nothing more, and come back when nothing is at work."""
        await asyncio.gather(*(consumer.drain() for consumer in self.consumers))

    @property
    def in_flight(self) -> int:
        return sum(consumer.in_flight for consumer in self.consumers)

    def silent_seconds(self) -> float:
        """For how long the quietest of them has said nothing."""
        return max((consumer.pulse.silent_seconds() for consumer in self.consumers), default=0.0)
