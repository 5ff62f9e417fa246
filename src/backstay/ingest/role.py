"""The role ``ingest`` of a process: its consumers, pipelines and batches, and what keeps streams small."""

from __future__ import annotations

import asyncio
from random import Random

from backstay.clock import Clock
from backstay.definitions.registry import Registry
from backstay.domain.lease import Owner
from backstay.ingest.calling import Calls
from backstay.ingest.queues.consumer import Consumer
from backstay.ingest.queues.submitter import Submitter
from backstay.ingest.streams.assembly import batches_of, pipeline_of
from backstay.ingest.streams.checkpointer import Checkpointer
from backstay.ingest.streams.retention import Retention
from backstay.ingest.streams.services import Services
from backstay.messaging.exchange import Exchange
from backstay.messaging.streams import Streams
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.submit import Door


class Ingest:
    """One consumer for each queue that the application handles, one pipeline for each group that it reads."""

    def __init__(
        self,
        registry: Registry,
        exchange: Exchange,
        streams: Streams,
        *,
        owner: Owner,
        store: Store,
        settings: Settings,
        clock: Clock,
        random: Random,
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
        self.calls = Calls(store.alerting, clock)
        self.checkpointer = Checkpointer(
            store.groups, owner, settings=settings, clock=clock, calls=self.calls
        )
        services = Services(
            streams=streams,
            exchange=exchange,
            store=store,
            owner=owner,
            door=door,
            settings=settings,
            clock=clock,
            random=random,
            checkpointer=self.checkpointer,
            calls=self.calls,
        )
        self.pipelines = [
            *(pipeline_of(one, services) for one in registry.pipelines.values()),
            *(batches_of(one, services) for one in registry.batches.values()),
        ]
        self.retention = Retention(streams, store.groups, clock=clock)

    async def run(self) -> None:
        """All of them, until cancelled. Raises LeaseLost when this instance was declared dead."""
        async with asyncio.TaskGroup() as group:
            for consumer in self.consumers:
                group.create_task(consumer.run(), name=f"backstay-consumer {consumer.queue}")
            for pipeline in self.pipelines:
                group.create_task(pipeline.run(), name=f"backstay-pipeline {pipeline.label}")
            group.create_task(self.checkpointer.run(), name="backstay-checkpointer")
            group.create_task(self.retention.run(), name="backstay-retention")
            group.create_task(self.calls.run(), name="backstay-calls")

    async def run_once(self) -> int:
        """One turn of each; how many messages and events were handled."""
        handled = sum([await consumer.run_once() for consumer in self.consumers])
        handled += sum([await pipeline.run_once() for pipeline in self.pipelines])
        await self.retention.run_once()
        await self.calls.run_once()
        return handled

    async def drain(self) -> None:
        """Receive and read nothing more, and come back when nothing is at work."""
        consumers = (consumer.drain() for consumer in self.consumers)
        await asyncio.gather(*consumers, *(pipeline.drain() for pipeline in self.pipelines))

    @property
    def in_flight(self) -> int:
        messages = sum(consumer.in_flight for consumer in self.consumers)
        return messages + sum(pipeline.in_flight for pipeline in self.pipelines)

    def silent_seconds(self) -> float:
        """For how long the quietest of them has said nothing."""
        return max(
            self.checkpointer.pulse.silent_seconds(),
            self.retention.pulse.silent_seconds(),
            *(consumer.pulse.silent_seconds() for consumer in self.consumers),
            *(pipeline.silent_seconds() for pipeline in self.pipelines),
        )
