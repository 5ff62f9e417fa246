"""What a pipeline or a batch handler is declared with, and which mistakes are told at once."""

from __future__ import annotations

from datetime import timedelta
from functools import wraps
from typing import Any

import pytest

from backstay import App, Checkpoint, Event, Retry
from backstay.definitions.pipelines import PipelineDefinition, StartSink, ViaSink
from backstay.errors import InvalidDefinition, InvalidId, InvalidInput, InvalidRequest, UnknownWorkflow


@pytest.fixture
def app() -> App:
    return App("shop")


async def send(event: Any) -> None:
    """A sink."""


async def archive(events: list[Event], checkpoint: Checkpoint) -> None:
    """A batch handler."""


def declared(app: App) -> PipelineDefinition:
    [pipeline] = app.registry.pipelines.values()
    return pipeline


def test_a_chain_is_declared_with_its_stages_sink_and_checkpoint(app: App):
    @app.workflow
    async def deliver(request: str) -> None: ...

    def parse(event: Event) -> str:
        return str(event.body)

    chain = app.stream("requests", partitions=4).source(group="scheduler").map(parse).filter(bool)
    chain.start(deliver, id=str.upper).checkpoint(every=50, after="2s")

    found = declared(app)
    assert (found.stream, found.group, found.label) == ("requests", "scheduler", "requests/scheduler")
    assert [(stage.kind, stage.name, stage.is_async) for stage in found.stages] == [
        ("map", "parse", False),
        ("filter", "bool", False),
    ]
    assert found.sink == StartSink(deliver, str.upper)
    assert (found.every, found.after) == (50, timedelta(seconds=2))
    app.registry.check()


def test_without_a_checkpoint_the_usual_one_is_meant(app: App):
    app.stream("requests").source(group="g").via(send, concurrency=7, complete_by="3s")

    found = declared(app)
    assert (found.every, found.after) == (1_000, timedelta(seconds=5))
    assert isinstance(found.sink, ViaSink)
    assert (found.sink.concurrency, found.sink.complete_by) == (7, timedelta(seconds=3))


def test_a_chain_never_changes_so_that_two_may_begin_alike(app: App):
    stream = app.stream("requests")
    parsed = stream.source(group="one").map(str)
    parsed.via(send)
    stream.source(group="two").map(str).map(len).via(send)

    assert [len(one.stages) for one in app.registry.pipelines.values()] == [1, 2]
    with pytest.raises(InvalidDefinition, match="has a pipeline for group 'one' already"):
        parsed.filter(bool).via(send)


def test_what_is_awaited_is_recognised(app: App):
    class Caller:
        async def __call__(self, event: Event) -> None: ...

    @wraps(send)
    def wrapped(event: Event) -> Any:
        return send(event)

    @app.agent("bank").step
    async def charge(event: Event) -> None: ...

    functions: list[Any] = [send, Caller(), wrapped, charge]
    for number, function in enumerate(functions):
        app.stream("requests").source(group=f"g{number}").map(function).via(function)
    assert all(one.stages[0].is_async for one in app.registry.pipelines.values())


@pytest.mark.parametrize("after", ["map", "filter", "via", "start", "send"])
def test_nothing_comes_after_a_sink_but_a_checkpoint(app: App, after: str):
    chain = app.stream("requests").source(group="g").via(send)

    with pytest.raises(InvalidDefinition, match=rf"\.{after}\(…\) comes after its sink"):
        getattr(chain, after)(send)


def test_a_checkpoint_comes_once_and_after_the_sink(app: App):
    chain = app.stream("requests").source(group="g")

    with pytest.raises(InvalidDefinition, match=r"has no sink: put \.start\(…\), \.send\(…\) or"):
        chain.checkpoint(every=5)
    with pytest.raises(InvalidDefinition, match=r"has a \.checkpoint\(…\) already"):
        chain.via(send).checkpoint(every=5).checkpoint(every=6)


def test_a_chain_without_a_sink_is_told_when_the_application_starts(app: App):
    app.stream("requests").source(group="g").map(str)

    with pytest.raises(InvalidDefinition, match="for group 'g' has no sink; end it with"):
        app.registry.check()


def test_a_topic_in_place_of_a_queue_is_told_when_the_application_starts(app: App):
    app.stream("requests").source(group="g").send(app.topic("news"))

    with pytest.raises(
        InvalidDefinition, match="requests/g sends to 'news', which is a topic; send to a queue"
    ):
        app.registry.check()


def test_a_queue_may_be_named_or_given(app: App):
    requests = app.stream("requests")
    requests.source(group="a").send(app.queue("orders"), priority=3)
    requests.source(group="b").send("orders")

    app.registry.check()
    assert [getattr(one.sink, "queue", None) for one in app.registry.pipelines.values()] == ["orders"] * 2
    with pytest.raises(InvalidInput, match="priority is 11"):
        requests.source(group="c").send("orders", priority=11)


def test_a_workflow_that_is_not_there_is_told_when_the_application_starts(app: App):
    app.stream("requests").source(group="g").start("deliver")

    with pytest.raises(UnknownWorkflow, match="there is no workflow 'deliver'"):
        app.registry.check()


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (lambda s: s.source(group="g").map("parse"), r"\.map\('parse'\) must be given a function"),
        (lambda s: s.source(group="g").via(print), r"\.via\(print\) must be given an async def"),
        (lambda s: s.source(group="g").start(print), "is not a workflow"),
        (lambda s: s.source(group="g").send(print), "is not a queue; give app"),
        (lambda s: s.source(group="g").send("q", session=send), "session must be a plain function"),
        (lambda s: s.source(group="g").send("q", properties={}), "properties must be a plain function"),
        (lambda s: s.source(group="g").start("w", id=send), "id must be a plain function"),
        (lambda s: s.source(group="g").start("w", id="x"), "id must be a plain function"),
        (lambda s: s.source(group="g").start("w", attributes=send), "attributes must be a plain function"),
        (lambda s: s.source(group="g").via(send, concurrency=0), "concurrency is 0; it must be 1 to"),
        (lambda s: s.source(group="g").via(send).checkpoint(every=0), "every is 0; it must be 1 to"),
        (lambda s: s.source(group="g").via(send).checkpoint(after="2h"), "after is 2h; at most an hour"),
    ],
)
def test_mistakes_are_told_where_they_are_made(app: App, declare: Any, says: str):
    with pytest.raises(InvalidDefinition, match=says):
        declare(app.stream("requests"))


def test_groups_have_names_like_everything(app: App):
    with pytest.raises(InvalidId, match="name of the group is 'no group'"):
        app.stream("requests").source(group="no group")


async def test_a_client_declares_no_pipelines(app: App, tmp_path: Any):
    async with app.client(f"sqlite:///{tmp_path / 'x.db'}") as client:
        with pytest.raises(InvalidDefinition, match=r"declared with app\.stream\('requests'\)"):
            client.stream("requests").source(group="g")


# Batches and streams


def test_a_batch_handler_has_a_group_of_its_own(app: App):
    app.batch("telemetry", group="archive", max_events=9, max_wait="2s", retry=Retry(attempts=2))(archive)

    [found] = app.registry.batches.values()
    assert (found.max_events, found.max_wait, found.retry.attempts) == (9, timedelta(seconds=2), 2)
    with pytest.raises(InvalidDefinition, match="has a batch handler for group 'archive' already"):
        app.stream("telemetry").source(group="archive").via(send)
    with pytest.raises(InvalidDefinition, match="has a batch handler for group 'archive' already"):
        app.batch("telemetry", group="archive")(archive)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_events": 0}, "max_events is 0; it must be 1 to 10,000"),
        ({"max_wait": "2h"}, "max_wait is 2h; at most 1h are allowed"),
    ],
)
def test_the_bounds_of_a_batch(app: App, options: dict[str, Any], says: str):
    with pytest.raises(InvalidDefinition, match=says):
        app.batch("telemetry", group="g", **options)(archive)
    with pytest.raises(InvalidDefinition, match="must be an async def"):
        app.batch("telemetry", group="g")(lambda events, checkpoint: archive(events[:1], checkpoint))


def test_a_stream_is_declared_once_with_options_and_named_without(app: App):
    app.batch("requests", group="g")(archive)
    app.stream("requests", partitions=4, retention="1h")
    app.stream("requests")

    assert app.registry.streams["requests"].partitions == 4
    with pytest.raises(InvalidDefinition, match="is declared twice, with other options"):
        app.stream("requests", partitions=5)


@pytest.mark.parametrize("options", [{"partitions": 0}, {"retention": "1ms"}, {"dedup": "8d"}])
def test_the_bounds_of_a_stream(app: App, options: dict[str, Any]):
    with pytest.raises(InvalidRequest, match=next(iter(options))):
        app.stream("requests", **options)
