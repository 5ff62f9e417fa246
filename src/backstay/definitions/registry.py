"""Everything that one application declared."""

from __future__ import annotations

from typing import Any

from backstay.definitions.agents import Agent, Step
from backstay.definitions.batches import BatchDefinition
from backstay.definitions.dials import Dial
from backstay.definitions.mounts import AsgiApplication, check_path, overlap
from backstay.definitions.pipelines import Pipeline, PipelineDefinition, SendSink, StartSink, begun
from backstay.definitions.queues import ConsumerDefinition, QueueDefinition, SubscriptionDefinition
from backstay.definitions.streams import StreamDefinition
from backstay.definitions.workflows import Workflow
from backstay.errors import InvalidDefinition, UnknownWorkflow


class Registry:
    """All of it by name: workflows by version as well, who reads a stream by group, mounts by path."""

    def __init__(self) -> None:
        self.workflows: dict[tuple[str, int], Workflow[..., Any]] = {}
        self.agents: dict[str, Agent] = {}
        self.steps: dict[str, Step[..., Any]] = {}
        self.mounts: dict[str, AsgiApplication] = {}
        self.dials: dict[str, Dial] = {}
        self.queues: dict[str, QueueDefinition] = {}
        #: Of each topic its subscriptions, by their names.
        self.topics: dict[str, dict[str, SubscriptionDefinition]] = {}
        self.consumers: dict[str, ConsumerDefinition] = {}
        #: Of each queue whose messages become tasks: who says which.
        self.submissions: dict[str, ConsumerDefinition] = {}
        self.streams: dict[str, StreamDefinition] = {}
        #: Who reads, by stream and group.
        self.pipelines: dict[tuple[str, str], PipelineDefinition] = {}
        self.batches: dict[tuple[str, str], BatchDefinition] = {}
        # Pipelines that were begun: each must have got a sink by the time that the application runs.
        self._begun: dict[tuple[str, str], None] = {}

    def copy(self) -> Registry:
        """The same declarations; what is added to one of the two is not in the other."""
        copied = Registry()
        for name, declared in vars(self).items():
            setattr(copied, name, declared.copy())
        return copied

    def add_workflow(self, workflow: Workflow[..., Any]) -> None:
        identity = (workflow.name, workflow.version)
        if identity in self.workflows:
            raise InvalidDefinition(
                f"workflow {workflow.name!r} version {workflow.version} is declared twice;"
                " give one of them another name=… or version=…"
            )
        self.workflows[identity] = workflow

    def add_agent(self, agent: Agent) -> None:
        if agent.name in self.agents:
            raise InvalidDefinition(f"agent {agent.name!r} is declared twice; give one of them another name")
        self.agents[agent.name] = agent

    def add_step(self, step: Step[..., Any]) -> None:
        known = self.steps.get(step.name)
        if known is not None:
            raise InvalidDefinition(
                f"step {step.name!r} of agent {step.agent.name!r} is declared already"
                f" (by agent {known.agent.name!r}); give one of them another name=…"
            )
        self.steps[step.name] = step

    def add_mount(self, path: str, application: AsgiApplication) -> None:
        check_path(path)
        if not callable(application):
            raise InvalidDefinition(
                f"what is mounted at '{path}' is a {type(application).__name__}; mount an ASGI application"
            )
        taken = next((known for known in self.mounts if overlap(path, known)), None)
        if taken is not None:
            raise InvalidDefinition(
                f"'{path}' and '{taken}' are both mounted, and one contains the other; choose another path"
            )
        self.mounts[path] = application

    def add_dial(self, name: str, dial: Dial) -> None:
        if name in self.dials:
            raise InvalidDefinition(f"dial {name!r} is declared twice; give one of them another name")
        self.dials[name] = dial

    def add_queue(self, queue: QueueDefinition) -> None:
        known = self.queues.setdefault(queue.name, queue)
        if known != queue:
            raise InvalidDefinition(
                f"queue {queue.name!r} is declared twice, with other options;"
                " give them once, and name it without options elsewhere"
            )

    def add_subscription(self, one: SubscriptionDefinition) -> None:
        topic, name = one.subscription.topic, one.subscription.name
        known = self.topics.setdefault(topic, {}).setdefault(name, one)
        if known != one:
            raise InvalidDefinition(
                f"subscription {name!r} of topic {topic!r} is declared twice, with other options"
            )

    def topic_of(self, queue: str) -> str | None:
        """The topic of which this queue is a subscription, if it is one."""
        return next(
            (
                topic
                for topic, subscriptions in self.topics.items()
                if any(one.queue.name == queue for one in subscriptions.values())
            ),
            None,
        )

    def add_consumer(self, consumer: ConsumerDefinition) -> None:
        self._check_unhandled(consumer.queue)
        self.consumers[consumer.queue] = consumer

    def add_submission(self, submission: ConsumerDefinition) -> None:
        self._check_unhandled(submission.queue)
        self.submissions[submission.queue] = submission

    def _check_unhandled(self, queue: str) -> None:
        for kind, known in (("consumer", self.consumers), ("submission", self.submissions)):
            if queue in known:
                raise InvalidDefinition(
                    f"queue {queue!r} has a {kind} already; raise its concurrency=…,"
                    " or send to a topic with a subscription for each"
                )

    def add_stream(self, stream: StreamDefinition) -> None:
        known = self.streams.get(stream.name)
        # Naming a stream is no declaration of its options.
        if known is None or known.plain:
            self.streams[stream.name] = stream
        elif not stream.plain and known != stream:
            raise InvalidDefinition(
                f"stream {stream.name!r} is declared twice, with other options;"
                " give them once, and name it without options elsewhere"
            )

    def begin_pipeline(self, stream: str, group: str, *, readers: int = 1) -> Pipeline:
        pipeline = begun(self, stream, group, readers=readers)
        self._begun[stream, group] = None
        return pipeline

    def add_pipeline(
        self, pipeline: PipelineDefinition, *, instead_of: PipelineDefinition | None = None
    ) -> None:
        identity = (pipeline.stream, pipeline.group)
        if instead_of is None or self.pipelines.get(identity) is not instead_of:
            self._check_unread(*identity)
        self.pipelines[identity] = pipeline

    def add_batch(self, batch: BatchDefinition) -> None:
        self._check_unread(batch.stream, batch.group)
        self.batches[batch.stream, batch.group] = batch

    def _check_unread(self, stream: str, group: str) -> None:
        for kind, known in (("pipeline", self.pipelines), ("batch handler", self.batches)):
            if (stream, group) in known:
                raise InvalidDefinition(
                    f"stream {stream!r} has a {kind} for group {group!r} already;"
                    " give each of them a group of its own"
                )

    def workflow(self, name: str, version: int | None = None) -> Workflow[..., Any]:
        """The workflow of that name: the given version, or the newest."""
        if version is not None and (name, version) in self.workflows:
            return self.workflows[name, version]
        versions = [known for (known_name, known) in self.workflows if known_name == name]
        if not versions or (version is not None and version not in versions):
            wanted = f"{name!r}" if version is None else f"{name!r} version {version}"
            known = ", ".join(sorted({one for one, _ in self.workflows})) or "none"
            raise UnknownWorkflow(f"there is no workflow {wanted}; registered: {known}")
        return self.workflows[name, version if version is not None else max(versions)]

    def check(self) -> None:
        """Look at every declared type now, so that a mistake shows at start and not at the first task."""
        for workflow in self.workflows.values():
            _ = workflow.signature, workflow.returns
            self._check_report(workflow)
        for step in self.steps.values():
            _ = step.signature, step.returns
        for stream, group in self._begun:
            if (stream, group) not in self.pipelines:
                raise InvalidDefinition(
                    f"the pipeline of stream {stream!r} for group {group!r} has no sink;"
                    " end it with .start(workflow), .send(queue) or .via(function)"
                )
        for pipeline in self.pipelines.values():
            self._check_sink(pipeline)

    def _check_report(self, workflow: Workflow[..., Any]) -> None:
        """A queue that is not there would be missed when the first task fails, and no sooner."""
        queue = workflow.report and workflow.report.queue
        if queue and queue not in self.queues and self.topic_of(queue) is None:
            raise InvalidDefinition(
                f"workflow {workflow.name!r} reports its failures to queue {queue!r}, which is not declared;"
                f" declare it with app.queue({queue!r})"
            )

    def _check_sink(self, pipeline: PipelineDefinition) -> None:
        """Raise now what would concern every event."""
        if isinstance(pipeline.sink, SendSink) and pipeline.sink.queue in self.topics:
            raise InvalidDefinition(
                f"pipeline {pipeline.label} sends to {pipeline.sink.queue!r}, which is a topic;"
                " send to a queue, or to the queue of a subscription (topic:name)"
            )
        if isinstance(pipeline.sink, StartSink):
            wanted = pipeline.sink.workflow
            if isinstance(wanted, str):
                self.workflow(wanted)
            else:
                self.workflow(wanted.name, wanted.version)
