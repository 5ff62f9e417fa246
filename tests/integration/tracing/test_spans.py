"""Who gives OpenTelemetry a provider sees what became of a task; nobody else pays for that."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from backstay import App, Message, Permanent, Recovery, Retry, Submission, current_step
from backstay.client import Client
from backstay.tracing import configured
from tests.support.databases import Database, SqliteDatabase
from tests.support.ingesting import STREAM, at
from tests.support.running import FAST, SOON, comes_true, ends, eventually, running, until
from tests.support.serving import serving
from tests.support.split import apart

CAME = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
#: In every input, output and error here, and nowhere in a span.
SECRET = "4929-1234"

Place = Callable[[App], AbstractAsyncContextManager[Client]]


class Spans:
    """Those that have ended."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [one for one in self.all if one.name == name]

    def way_to(self, name: str) -> list[str]:
        """The names from the topmost span down to this one, each of them the parent of the next."""
        known = {one.context.span_id: one for one in self.all}
        span = self.named(name)[0]
        way = [span.name]
        while span.parent is not None and span.parent.span_id in known:
            span = known[span.parent.span_id]
            way.append(span.name)
        return way[::-1]

    def errors(self) -> dict[str, object]:
        """The kinds of error, by the names of the spans."""
        return {
            one.name: one.attributes["error.type"]
            for one in self.all
            if one.attributes is not None and "error.type" in one.attributes
        }


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """Of a provider that is there for this test: by its own means, OpenTelemetry has one for ever."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield Spans(exporter)
    provider.shutdown()


@pytest.fixture(params=["beside", "elsewhere"])
def place(request: pytest.FixtureRequest, sqlite_database: SqliteDatabase) -> Place:
    """The scheduler has its agents beside it, or they are in another process."""
    if request.param == "elsewhere":
        return lambda app: apart(app, sqlite_database)
    return lambda app: running(app, sqlite_database.store(), **FAST)


async def test_a_task_is_told_from_its_submission_down_to_the_bodies_of_its_steps(place: Place, spans: Spans):
    app = App("traced")
    bank = app.agent("bank", retry=Retry(attempts=2, first="1ms"))
    seen: list[tuple[object, str | None]] = []

    @bank.step
    async def charge(card: str) -> str:
        seen.append((trace.get_current_span().get_span_context(), current_step().traceparent))
        if len(seen) == 1:
            raise ConnectionError(SECRET)
        return card

    @bank.step
    def write(card: str) -> str:
        with trace.get_tracer("mine").start_as_current_span("on paper"):
            return card

    @app.workflow
    async def order(card: str) -> str:
        return await write(await charge(card))

    async with place(app) as client:
        with trace.get_tracer("mine").start_as_current_span("checkout"):
            handle = await client.submit(order, SECRET, id="t")
        assert await handle.result(SOON) == SECRET
        await comes_true(lambda: spans.named("run order"))

    above = ["checkout", "submit order", "run order"]
    assert spans.way_to("agent charge") == [*above, "step charge", "agent charge"]
    assert spans.way_to("on paper") == [*above, "step write", "agent write", "on paper"]
    assert len({one.context.trace_id for one in spans.all}) == 1
    [body] = spans.named("agent charge")
    context = body.context
    told = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert seen == [(context, told)] * 2
    assert body.attributes == {
        "backstay.task_id": "t",
        "backstay.step": "charge:1",
        "backstay.agent": "bank",
        "backstay.attempt": 1,
    }
    [event] = body.events
    assert (event.name, event.attributes) == ("step_retried", {"tries": 1, "error": "ConnectionError"})
    [run] = spans.named("run order")
    assert run.attributes is not None
    assert run.attributes["backstay.state"] == "processed"
    assert spans.errors() == {}


async def test_what_failed_and_what_is_undone_is_told_by_kind_without_a_value(place: Place, spans: Spans):
    app = App("traced")
    bank = app.agent("bank", retry=Retry(attempts=1))

    @bank.step
    async def reserve(card: str) -> str:
        return card

    @reserve.undo
    async def release(card: str, *, result: str | None) -> None: ...

    @bank.step
    async def charge(card: str) -> str:
        raise Permanent(f"no money on {card}")

    @app.workflow(recovery=Recovery(then="undo"))
    async def order(card: str) -> str:
        return await charge(await reserve(card))

    async with place(app) as client:
        await client.submit(order, SECRET, id="t", attributes={"traceparent": CAME})
        assert (await ends(client, "t")).state == "undone"
        await comes_true(lambda: spans.named("undo order"))

    assert spans.way_to("agent reserve undo") == [
        "submit order",
        "undo order",
        "undo reserve",
        "agent reserve undo",
    ]
    assert {f"{one.context.trace_id:032x}" for one in spans.all} == {CAME[3:35]}
    assert spans.errors() == {
        "agent charge": "Permanent",
        "step charge": "Permanent",
        "undo order": "Permanent",
    }
    assert SECRET not in "".join(one.to_json() for one in spans.all)


async def test_a_child_is_told_under_the_run_that_started_it(sqlite_database: SqliteDatabase, spans: Spans):
    app = App("traced")

    @app.workflow
    async def leaf() -> str:
        return "done"

    @app.workflow
    async def root() -> str:
        from backstay import start

        return await start(leaf)

    async with running(app, sqlite_database.store(), **FAST) as client:
        await (await client.submit(root)).result(SOON)
        await comes_true(lambda: spans.named("run root"))

    assert spans.way_to("run leaf") == ["submit root", "run root", "run leaf"]


async def test_messages_and_events_and_requests_carry_the_trace_to_their_tasks(
    sqlite_database: SqliteDatabase, tmp_path: Path, spans: Spans
):
    app = App("traced")
    app.queue("orders")
    app.queue("letters")

    @app.workflow
    async def order(card: str) -> str:
        return card

    @app.submission("orders")
    async def accept(message: Message, _connection: object) -> Submission:
        return Submission(order, message.body, id="by-submission")

    @app.consumer("letters")
    async def read(message: Message) -> None:
        await app.submit(order, message.body, id="by-consumer")

    app.stream(STREAM, partitions=1).source(group="g").map(lambda event: event.body).start(
        order, id=lambda _: "by-event"
    )

    ids = ("by-submission", "by-consumer", "by-event", "by-request")
    async with app.run(sqlite_database.url, **FAST, **at(tmp_path)) as _:
        with trace.get_tracer("mine").start_as_current_span("shop"):
            await app.queue("orders").send(SECRET)
            await app.queue("letters").send(SECRET)
        await app.stream(STREAM).append(SECRET, headers={"traceparent": CAME})
        store = sqlite_database.store()
        await store.open()
        async with serving(store, app.registry) as server:
            body = {"workflow": "order", "input": SECRET, "id": "by-request"}
            assert (await server.post("/v1/tasks", body, traceparent=CAME)).status == 202
        for one in ids:
            await until(app, one, "processed")
        tasks = [await app.task(one) for one in ids]
        await eventually(lambda: _ended(spans), lambda ended: ended == len(ids))
        await store.close()

    assert spans.way_to("process orders") == ["shop", "process orders"]
    assert spans.way_to("process letters") == ["shop", "process letters"]
    shop = f"{spans.named('shop')[0].context.trace_id:032x}"
    traces = [task.attributes["traceparent"][3:35] for task in tasks]
    assert traces == [shop, shop, CAME[3:35], CAME[3:35]]
    assert SECRET not in "".join(one.to_json() for one in spans.all)


async def _ended(spans: Spans) -> int:
    return len(spans.named("run order"))


async def test_without_a_provider_nothing_is_loaded_and_a_task_carries_what_its_submitter_gave_it(
    database: Database,
):
    assert configured() is None
    code = "import backstay.cli, backstay.runtime, sys; print('opentelemetry' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
    app = App("plain")

    @app.workflow
    async def order() -> None: ...

    async with running(app, database.store(), **FAST) as client:
        await client.submit(order, id="t")
        await client.submit(order, id="u", attributes={"traceparent": "whatever"})

        assert (await client.task("t")).attributes == {}
        assert (await client.task("u")).attributes == {"traceparent": "whatever"}
