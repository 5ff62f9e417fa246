"""The role ``ingest`` of a process: all its consumers, and all that submits what comes in queues."""

from __future__ import annotations

import asyncio

from backstay.clock import Clock
from backstay.definitions.registry import Registry
from backstay.ingest.consumer import Consumer
from backstay.ingest.submitter import Submitter
from backstay.messaging.exchange import Exchange
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.submit import Door


class Ingest:
    """One consumer for each queue that the application has a handler or a submission for."""

    def __init__(
        self, registry: Registry, exchange: Exchange, *, store: Store, settings: Settings, clock: Clock
    ) -> None:
        door = Door(store, registry, settings=settings, clock=clock)
        submitters = [
            Submitter(one, exchange, store=store, door=door, clock=clock)
            for one in registry.submissions.values()
        ]
        self.consumers = [
            *(Consumer(one, exchange, clock=clock) for one in registry.consumers.values()),
            *submitters,
        ]

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
