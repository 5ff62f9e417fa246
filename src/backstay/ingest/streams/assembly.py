"""Makes of each declaration what runs in a process."""

from __future__ import annotations

from typing import Any, Final

from backstay.definitions.batches import BatchDefinition
from backstay.definitions.pipelines import PipelineDefinition, SendSink, StartSink, ViaSink
from backstay.definitions.workflows import Workflow
from backstay.domain.stream import EventRecord, Group, Holding
from backstay.ingest.streams.allowance import Allowance
from backstay.ingest.streams.batch_flow import BatchFlow
from backstay.ingest.streams.flow import Flow
from backstay.ingest.streams.lane_flow import LaneFlow, Sink
from backstay.ingest.streams.lookout import Lookout
from backstay.ingest.streams.outbox import Outbox
from backstay.ingest.streams.pipeline import MakeFlow, Pipeline
from backstay.ingest.streams.sender import Sender
from backstay.ingest.streams.services import Services
from backstay.ingest.streams.slice_flow import Maker, SliceFlow
from backstay.ingest.streams.slots import Slots
from backstay.ingest.streams.stages import Stages
from backstay.ingest.streams.starter import Starter
from backstay.ingest.streams.tally import Tally
from backstay.ingest.streams.via import Via

# So many events are at work at once in asynchronous stages that end in a task or a message.
CONCURRENCY: Final = 1_000


def pipeline_of(declared: PipelineDefinition, services: Services) -> Pipeline:
    sink = declared.sink
    if isinstance(sink, StartSink):
        make = _starting(declared, sink, services)
    elif isinstance(sink, SendSink):
        make = _sending(declared, sink, services)
    else:
        make = _through(declared, sink, services)
    return Pipeline(Group(declared.stream, declared.group), make, services, readers=declared.readers)


def batches_of(declared: BatchDefinition, services: Services) -> Pipeline:
    def make(holding: Holding, lookout: Lookout) -> Flow:
        # The handler says when; whatever it says is written at once.
        tally = Tally(holding, every=1, after=declared.max_wait, clock=services.clock)
        return BatchFlow(holding, tally, lookout, services, declared=declared)

    return Pipeline(Group(declared.stream, declared.group), make, services)


def _starting(declared: PipelineDefinition, sink: StartSink, services: Services) -> MakeFlow:
    stages = Stages(declared.stages)
    maker = Starter(declared, sink, services.door)
    name = sink.workflow.name if isinstance(sink.workflow, Workflow) else sink.workflow
    settings, readers = services.settings, declared.readers
    allowance = Allowance(services.store, name, max_pending=settings.max_pending, clock=services.clock)
    slots = Slots(CONCURRENCY)

    def make(holding: Holding, lookout: Lookout) -> Flow:
        tally = _tally(declared, holding, services)
        of = (holding, tally, lookout, services)
        if stages.plain:
            return SliceFlow(*of, stages=stages, maker=maker, allowance=allowance, readers=readers)
        made = _into(tally, maker)
        return LaneFlow(
            *of, stages=stages, sink=made, slots=slots, makes=True, allowance=allowance, readers=readers
        )

    return make


def _sending(declared: PipelineDefinition, sink: SendSink, services: Services) -> MakeFlow:
    stages = Stages(declared.stages)
    maker = Sender(declared, sink, services.exchange)
    slots, readers = Slots(CONCURRENCY), declared.readers

    def make(holding: Holding, lookout: Lookout) -> Flow:
        tally = Outbox(holding, every=declared.every, after=declared.after, clock=services.clock)
        of = (holding, tally, lookout, services)
        if stages.plain:
            return SliceFlow(*of, stages=stages, maker=maker, readers=readers)
        made = _into(tally, maker)
        return LaneFlow(*of, stages=stages, sink=made, slots=slots, makes=True, readers=readers)

    return make


def _into(tally: Tally, maker: Maker) -> Sink:
    """Notes what is made of each value."""

    async def made(value: Any, record: EventRecord) -> None:
        tally.made(maker.make(value, record))

    return made


def _through(declared: PipelineDefinition, sink: ViaSink, services: Services) -> MakeFlow:
    stages = Stages(declared.stages)
    slots = Slots(sink.concurrency)
    via = Via(sink, complete_by=services.settings.agent_complete_by, chance=services.random.random)

    async def process(value: Any, _: EventRecord) -> None:
        await via.process(value)

    def make(holding: Holding, lookout: Lookout) -> Flow:
        tally = _tally(declared, holding, services)
        of = (holding, tally, lookout, services)
        return LaneFlow(*of, stages=stages, sink=process, slots=slots, readers=declared.readers)

    return make


def _tally(declared: PipelineDefinition, holding: Holding, services: Services) -> Tally:
    return Tally(holding, every=declared.every, after=declared.after, clock=services.clock)
