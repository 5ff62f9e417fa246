"""Makes a message of what the stages gave of an event."""

from __future__ import annotations

import hashlib
from typing import Any

from backstay.definitions.pipelines import PipelineDefinition, SendSink
from backstay.domain.message import NewMessage, Properties
from backstay.domain.stream import Event, EventRecord
from backstay.domain.task import derived_id, is_id
from backstay.ingest.streams.stages import refusal
from backstay.messaging.exchange import Exchange
from backstay.store.groups import Send


class Sender:
    """The sink of ``.send``. Everything is checked as it is for whoever sends."""

    def __init__(self, pipeline: PipelineDefinition, sink: SendSink, exchange: Exchange) -> None:
        self._sink = sink
        self._exchange = exchange
        self._prefix = f"{pipeline.stream}:{pipeline.group}"

    def make(self, value: Any, record: EventRecord) -> Send:
        """Raises Refused for what is no message."""
        try:
            return Send(self._message(value, record), record)
        except Exception as error:
            raise refusal("send", error) from error

    def _message(self, value: Any, record: EventRecord) -> NewMessage:
        sink = self._sink
        return self._exchange.new_message(
            sink.queue,
            # Where no stage made anything else of it, receivers get what was sent.
            value.body if isinstance(value, Event) else value,
            id=self._name(value, record),
            session=self._session(value, record),
            priority=sink.priority,
            properties=self._properties(value, record),
        )

    def _name(self, value: Any, record: EventRecord) -> str:
        if self._sink.id is None:
            return derived_id(self._prefix, f"{record.partition}:{record.offset}")
        return self._sink.id(value)  # type: ignore[no-any-return]

    def _session(self, value: Any, record: EventRecord) -> str | None:
        chosen = self._sink.session
        if chosen is True:
            return None if record.key is None else session_of(record.key)
        return chosen(value) if chosen else None

    def _properties(self, value: Any, record: EventRecord) -> Properties | None:
        return record.headers if self._sink.properties is None else self._sink.properties(value)


def session_of(key: str) -> str:
    """The session of events with this key: called as the key is, unless no session may be called so."""
    return key if is_id(key) else hashlib.sha256(key.encode()).hexdigest()
