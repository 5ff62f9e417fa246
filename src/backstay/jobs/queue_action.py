"""The actions that send to queues and topics, Backstay's own: the namespace of a job is a name for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from backstay.clock import Clock
from backstay.definitions.registry import Registry
from backstay.domain.jobs.brokered import AZURE, brokered, namespaces_of
from backstay.domain.jobs.messages import azure_not_run_here, service_bus_failed, service_bus_sent
from backstay.errors import InvalidRequest, QueueFull
from backstay.jobs.tried import Tried
from backstay.messaging.exchange import Exchange
from backstay.settings import Settings
from backstay.store.base import Store

#: Of each type: the member with the message, and in it that with the name.
_MEMBERS: Final = {
    "ServiceBusQueue": ("serviceBusQueueMessage", "queueName"),
    "ServiceBusTopic": ("serviceBusTopicMessage", "topicPath"),
}


class QueueAction:
    """An attempt has succeeded once the message is in the store. How it travels, no job decides here."""

    def __init__(self, store: Store, registry: Registry, *, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._namespaces = namespaces_of(settings.job_namespaces)
        self._exchange: Exchange | None = None

    async def send(self, action: Mapping[str, Any], *, key: str) -> Tried:
        """Send it under ``key``, unless the job names the message itself.

        Raises Unavailable when the store is away: the attempt is then to be made again.
        """
        kind = action["type"]
        member, named = _MEMBERS[kind]
        message = action[member]
        name, namespace = message[named], message["namespace"]
        if self._namespaces.get(namespace.lower()) == AZURE:
            return Tried(succeeded=False, message=azure_not_run_here(kind, name, namespace))
        try:
            sent_as = await self._sent(name, message, topic=kind == "ServiceBusTopic", key=key)
        except (InvalidRequest, QueueFull) as error:
            return Tried(succeeded=False, message=service_bus_failed(kind, name, namespace, str(error)))
        return Tried(succeeded=True, message=service_bus_sent(kind, name, namespace, sent_as))

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
