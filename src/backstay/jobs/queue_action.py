"""The actions that send to queues and topics, Backstay's own: the namespace of a job is a name for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backstay.clock import Clock
from backstay.definitions.registry import Registry
from backstay.domain.jobs.brokered import Addressed, brokered
from backstay.domain.jobs.messages import service_bus_failed, service_bus_sent
from backstay.errors import InvalidRequest, QueueFull
from backstay.jobs.tried import Tried
from backstay.messaging.exchange import Exchange
from backstay.settings import Settings
from backstay.store.base import Store


class QueueAction:
    """An attempt has succeeded once the message is in the store. How it travels, no job decides here."""

    def __init__(self, store: Store, registry: Registry, *, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._exchange: Exchange | None = None

    async def send(self, to: Addressed, *, key: str) -> Tried:
        """Send it under ``key``, unless the job names the message itself.

        Raises Unavailable when the store is away: the attempt is then to be made again.
        """
        where = (to.kind, to.name, to.namespace)
        try:
            sent_as = await self._sent(to.name, to.message, topic=to.to_topic, key=key)
        except (InvalidRequest, QueueFull) as error:
            return Tried(succeeded=False, message=service_bus_failed(*where, str(error)))
        return Tried(succeeded=True, message=service_bus_sent(*where, sent_as))

    def close(self) -> None:
        if self._exchange is not None:
            self._exchange.close()

    async def _sent(self, to: str, message: Mapping[str, Any], *, topic: bool, key: str) -> str:
        made = brokered(message, key=key)
        sent = await self._open_exchange().send(
            to,
            message["message"],
            topic=topic,
            id=made.id,
            session=made.session,
            properties=made.properties,
            at=made.at,
            ttl=made.ttl,
        )
        return sent.id

    def _open_exchange(self) -> Exchange:
        # It listens at the store, for which that must be open.
        if self._exchange is None:
            self._exchange = Exchange(
                self._store.queues, self._registry, settings=self._settings, clock=self._clock
            )
        return self._exchange
