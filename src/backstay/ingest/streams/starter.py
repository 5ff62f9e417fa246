"""Makes a task of what the stages gave of an event."""

from __future__ import annotations

from typing import Any

from backstay.definitions.pipelines import PipelineDefinition, StartSink
from backstay.domain.request import TRACEPARENT
from backstay.domain.stream import Event, EventRecord
from backstay.domain.task import NewTask, check_id, derived_id
from backstay.ingest.streams.stages import refusal
from backstay.store.groups import Start
from backstay.submit import Door


class Starter:
    """The sink of ``.start``. Everything is checked as a submission is."""

    def __init__(self, pipeline: PipelineDefinition, sink: StartSink, door: Door) -> None:
        self._workflow = sink.workflow
        self._id = sink.id
        self._attributes = sink.attributes
        self._door = door
        self._prefix = f"{pipeline.stream}:{pipeline.group}"

    def make(self, value: Any, record: EventRecord) -> Start:
        """Raises Refused for what is no input of the workflow, or no id."""
        try:
            return Start(self._task(value, record), record)
        except Exception as error:
            raise refusal("start", error) from error

    def _task(self, value: Any, record: EventRecord) -> NewTask:
        # Where no stage made anything else of it, the workflow gets what was sent.
        given = value.body if isinstance(value, Event) else value
        attributes = None if self._attributes is None else self._attributes(value)
        return self._door.new_task(
            self._workflow,
            (given,),
            id=self._name(value, record),
            attributes=attributes,
            parent=(record.headers or {}).get(TRACEPARENT),
        )

    def _name(self, value: Any, record: EventRecord) -> str:
        if self._id is None:
            return derived_id(self._prefix, f"{record.partition}:{record.offset}")
        return check_id(self._id(value))
