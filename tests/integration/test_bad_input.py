"""What bad input gets: a typed error at the call, which names field and limit; and nothing is written."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pydantic
import pytest

from backstay import (
    App,
    Breaker,
    Client,
    IdConflict,
    InvalidRequest,
    Recovery,
    Retry,
    TaskFailed,
    current_step,
)
from backstay.errors import (
    InvalidDefinition,
    InvalidId,
    InvalidInput,
    InvalidSetting,
    PayloadTooLarge,
    UnknownStep,
    UnknownTask,
    UnknownWorkflow,
)
from tests.support.databases import Database

FAST: dict[str, Any] = {"supervisor_period": "50ms", "heartbeat": "1s", "lease": "10s"}
SOON = 10.0
LIMIT = 2048


class Package(msgspec.Struct):
    size: int
    label: str = "plain"


@dataclass
class Address:
    street: str
    zip: int = 0


class Account(pydantic.BaseModel):
    owner: str
    limit: float = 1.0


@pytest.fixture
def app() -> App:
    app = App("bad-input")
    agent = app.agent("echo")

    @agent.step
    async def echo(value: int) -> int:
        return value

    @app.workflow
    async def ship(package: Package) -> None: ...

    @app.workflow
    async def bill(account: Account) -> None: ...

    @app.workflow
    async def move(address: Address) -> None: ...

    @app.workflow
    async def add(first: int, second: int = 2) -> None: ...

    @app.workflow
    async def store(anything: Any) -> None: ...

    @app.workflow
    async def measure(value: float | None) -> None: ...

    @app.workflow
    async def idle() -> None: ...

    @app.workflow(plan=[echo])
    async def planned() -> None: ...

    return app


@pytest.fixture
async def client(app: App, database: Database) -> AsyncIterator[Client]:
    """No role runs: what is in the store is what was written at the door."""
    async with app.client(database.url, payload_bytes_max=LIMIT, inline_bytes_max=512) as client:
        yield client


@pytest.fixture
def refused(client: Client, database: Database) -> Callable[..., Any]:
    """Await something that must raise; whatever it was, the store is as it was before."""

    async def refused(kind: type[Exception], match: str, awaitable: Any) -> Exception:
        before = database.content()
        with pytest.raises(kind, match=match) as raised:
            await awaitable
        assert database.content() == before
        return raised.value

    return refused


# Which workflow


async def test_an_unknown_workflow_is_refused_and_the_known_ones_are_named(client: Client, refused: Any):
    await refused(UnknownWorkflow, "no workflow 'fly'; registered: add, bill, idle", client.submit("fly", 1))


async def test_a_workflow_of_another_app_is_refused(client: Client, refused: Any):
    @App("other").workflow(version=7)
    async def ship(package: Package) -> None: ...

    await refused(UnknownWorkflow, "'ship' version 7", client.submit(ship, Package(1)))


@pytest.mark.parametrize("thing", [lambda: None, 5, None, object()], ids=repr)
async def test_what_is_not_a_workflow_is_refused(client: Client, refused: Any, thing: Any):
    await refused(InvalidInput, "is not a workflow; decorate it with @app.workflow", client.submit(thing))


# The input fits its type


@pytest.mark.parametrize(
    ("workflow", "input", "match"),
    [
        (
            "ship",
            {"size": "large"},
            r"input of workflow ship does not fit .* `int`, got `str` - at `\$\.size`",
        ),
        ("ship", {}, "input of workflow ship .* missing required field `size`"),
        ("ship", 5, "input of workflow ship .* Expected `object`, got `int`"),
        ("ship", None, "input of workflow ship .* got `null`"),
        ("move", {"street": 5}, r"input of workflow move .* at `\$\.street`"),
        ("bill", {"limit": 1}, "input of workflow bill (.|\n)*owner"),
        ("bill", {"owner": "ann", "limit": "much"}, "input of workflow bill (.|\n)*limit"),
        ("add", {"first": 1, "third": 3}, "input of workflow add .* unknown field `third`"),
        ("add", {"second": 1}, "input of workflow add .* missing required field `first`"),
        ("add", {"first": 1, "second": None}, r"input of workflow add .* at `\$\.second`"),
        ("measure", "5", "input of workflow measure .* `float | null`, got `str`"),
        ("idle", 5, "workflow idle: too many positional arguments"),
    ],
)
async def test_an_input_that_does_not_fit_the_type_is_refused(
    client: Client, refused: Any, workflow: str, input: Any, match: str
):
    await refused(InvalidInput, match, client.submit(workflow, input))


@pytest.mark.parametrize(
    ("args", "match"),
    [((), "missing a required argument: 'first'"), ((1, 2, 3), "too many positional arguments")],
)
async def test_arguments_must_match_the_signature(client: Client, refused: Any, args: Any, match: str):
    await refused(InvalidInput, f"workflow add: {match}", client.submit("add", *args))


class Opaque:
    pass


def endless() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        Opaque(),
        {"a": [Opaque()]},
        {(1, 2): 3},
        10**5000,
        "\ud800",
        {"\ud800": 1},
        endless(),
        deep(100_000),
        1j,
    ],
    ids=[
        "object",
        "inside",
        "tuple key",
        "large int",
        "surrogate",
        "surrogate key",
        "loop",
        "deep",
        "complex",
    ],
)
async def test_an_input_that_is_not_json_is_refused(client: Client, refused: Any, value: Any):
    await refused(
        InvalidInput, "input of workflow store cannot be written as JSON", client.submit("store", value)
    )


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("workflow", "wrap"),
    [
        ("store", lambda number: number),
        ("store", lambda number: {"a": [1, {"b": (number,)}]}),
        ("store", lambda number: {1: number}),
        ("store", lambda number: Account(owner="null", limit=number)),
        ("measure", lambda number: number),
        ("bill", lambda number: Account(owner="ann", limit=number)),
    ],
    ids=["plain", "nested", "number keys", "model in any", "optional", "model"],
)
async def test_nan_and_infinity_do_not_silently_become_null(
    client: Client, refused: Any, workflow: str, wrap: Any, number: float
):
    await refused(InvalidInput, f"input of workflow {workflow}.*NaN", client.submit(workflow, wrap(number)))


async def test_null_and_the_word_null_are_good_input(client: Client):
    for value in (None, "null", {"null": None}, [None, "null", 1.5]):
        await client.submit("store", value)


async def test_a_deep_input_below_the_limit_of_the_machine_is_good(client: Client):
    handle = await client.submit("store", deep(200))

    assert (await client.task(handle.id)).input == deep(200)


# The input is not too large


async def test_an_input_over_the_limit_is_refused_and_one_at_the_limit_is_not(client: Client, refused: Any):
    error = await refused(
        PayloadTooLarge,
        r"input of workflow store is 2,049 bytes .* limit is 2,048 bytes \(setting payload_bytes_max\)",
        client.submit("store", "x" * (LIMIT - 1)),
    )
    assert (error.size_bytes, error.limit_bytes) == (LIMIT + 1, LIMIT)

    await client.submit("store", "x" * (LIMIT - 2))


# The id


@pytest.mark.parametrize(
    "task_id", ["", "a b", "a/b", "ü", "a\n", "a\0", "x" * 201, 5, b"a", ["a"], "{}"], ids=repr
)
async def test_an_id_outside_the_pattern_is_refused(client: Client, refused: Any, task_id: Any):
    match = "id is .*1 to 200 characters out of letters, digits and"
    await refused(InvalidId, match, client.submit("idle", id=task_id))
    for look in (client.task, client.steps, client.undo, client.cancel, client.resubmit, client.why):
        await refused(InvalidId, match, look(task_id))


@pytest.mark.parametrize("task_id", ["a", "x" * 200, "order:17@shop~2030-01.x_y"])
async def test_an_id_within_the_pattern_is_good(client: Client, task_id: str):
    await client.submit("idle", id=task_id)

    assert (await client.task(task_id)).id == task_id


async def test_an_unknown_task_is_named(client: Client, refused: Any):
    for call in (
        client.task("nobody"),
        client.steps("nobody"),
        client.why("nobody"),
        client.undo("nobody"),
        client.cancel("nobody"),
        client.resubmit("nobody"),
        client.signal("nobody", "go"),
        client.complete_step("nobody", "echo:1", 1),
    ):
        await refused(UnknownTask, "no task 'nobody'", call)


# Again


async def test_the_same_content_twice_is_one_task(client: Client, database: Database):
    """Also when the second time comes as JSON, in another order, or without what is the default anyway."""
    first = await client.submit("ship", Package(size=1, label="plain"), id="t")
    before = database.content()

    for again in (Package(1), {"size": 1}, {"label": "plain", "size": 1}, {"size": 1, "label": "plain"}):
        handle = await client.submit("ship", again, id="t")
        assert handle.id == first.id
    assert database.content() == before


async def test_arguments_by_position_and_by_name_are_the_same_content(client: Client, database: Database):
    await client.submit("add", 1, 2, id="t")
    before = database.content()

    for again in ((1,), ({"second": 2, "first": 1},), ({"first": 1},)):
        await client.submit("add", *again, id="t")
    assert database.content() == before


@pytest.mark.parametrize(
    ("workflow", "input"),
    [("ship", {"size": 2}), ("ship", {"size": 1, "label": "red"}), ("store", {"size": 1})],
)
async def test_a_known_id_with_other_content_is_a_conflict(
    client: Client, refused: Any, workflow: str, input: Any
):
    await client.submit("ship", {"size": 1}, id="t")

    error = await refused(
        IdConflict,
        r"task 't' exists already with other content \(workflow 'ship', state pending\)",
        client.submit(workflow, input, id="t"),
    )
    assert error.task_id == "t"


# complete_by


@pytest.mark.parametrize(
    ("complete_by", "match"),
    [
        ("0s", "lies in the past"),
        (timedelta(0), "lies in the past"),
        ("2020-01-01T00:00:00Z", "lies in the past; now is 20"),
        (datetime(2020, 1, 1, tzinfo=UTC), "lies in the past"),
        ("2090-01-01T00:00:00", "has no time zone"),
        ("2090-01-01", "has no time zone"),
        (datetime(2090, 1, 1), "has no time zone"),  # noqa: DTZ001
        (timedelta(seconds=-1), "complete_by is"),
        ("-5s", "complete_by is '-5s'"),
        ("soon", "complete_by is 'soon'"),
        ("", "complete_by is ''"),
        ("5", "complete_by is '5'"),
        (5, "complete_by is 5"),
        (True, "complete_by is True"),
        ("101000d", "complete_by is 101000d; it must lie between 0ms and 100 years"),
        (timedelta(days=101_000), "complete_by is .*100 years"),
        ("9999-12-31T23:59:59-23:00", "complete_by 9999-12-31T23:59:59-23:00 .*100 years"),
        (datetime.max.replace(tzinfo=UTC), "complete_by 9999-12-31.* .*100 years"),
        ("2300-01-01T00:00:00Z", "complete_by 2300-01-01.* .*100 years"),
    ],
    ids=str,
)
async def test_a_complete_by_that_cannot_be_kept_is_refused(
    client: Client, refused: Any, complete_by: Any, match: str
):
    await refused(InvalidInput, match, client.submit("idle", complete_by=complete_by))


@pytest.mark.parametrize("complete_by", ["30s", timedelta(seconds=30), "0.5m"])
async def test_a_duration_counts_from_now(client: Client, complete_by: Any):
    handle = await client.submit("idle", complete_by=complete_by)
    task = await client.task(handle.id)

    assert task.hard_end is not None
    assert timedelta(seconds=29) < task.hard_end - task.created_at <= timedelta(seconds=30)


@pytest.mark.parametrize(
    "complete_by",
    [
        "2090-01-01T00:00:00Z",
        "2090-01-01T02:00:00+02:00",
        datetime(2090, 1, 1, tzinfo=UTC),
        datetime.fromisoformat("2089-12-31T19:00:00-05:00"),
    ],
    ids=str,
)
async def test_an_instant_is_kept_in_utc(client: Client, complete_by: Any):
    handle = await client.submit("idle", complete_by=complete_by)
    task = await client.task(handle.id)

    assert task.hard_end == datetime(2090, 1, 1, tzinfo=UTC)
    assert task.hard_end.utcoffset() == timedelta(0)


# What else comes with a submission


@pytest.mark.parametrize(
    ("attributes", "match"),
    [
        ({f"a{number}": "" for number in range(33)}, "attributes has 33 entries; 32 are allowed"),
        ({"a" * 201: "x"}, "attribute 'aaa.* too long; 200 characters"),
        ({"a": "x" * 201}, "attribute 'a' is too long; 200 characters"),
        ({"": "x"}, "attribute ''"),
        ({"a": 5}, "attribute 'a': names and values must be text"),
        ({5: "a"}, "attribute 5: names and values must be text"),
        ({"a": None}, "attribute 'a': names and values must be text"),
        ({"a": "\ud800"}, "attribute 'a'"),
        ({"\ud800": "a"}, "attribute"),
        ({"a": "b\0"}, "attribute 'a': names and values must be text"),
        ({"a\0": "b"}, "attribute .*: names and values must be text"),
        (["a"], "attributes is .*; it must be an object of texts"),
        ("a", "attributes is .*; it must be an object of texts"),
    ],
    ids=lambda one: str(one)[:30].encode("unicode_escape").decode(),
)
async def test_attributes_have_limits(client: Client, refused: Any, attributes: Any, match: str):
    await refused(InvalidInput, match, client.submit("idle", attributes=attributes))


async def test_attributes_at_their_limits_are_kept(client: Client):
    attributes = {"k" * 200: "v" * 200, **{f"a{number}": "" for number in range(31)}}
    handle = await client.submit("idle", attributes=attributes)

    assert (await client.task(handle.id)).attributes == attributes


@pytest.mark.parametrize("reply_to", ["", "x" * 201, 5, b"queue", "\ud800", "queue\0"], ids=ascii)
async def test_reply_to_has_limits(client: Client, refused: Any, reply_to: Any):
    await refused(InvalidInput, "reply_to", client.submit("idle", reply_to=reply_to))


# Operators and signals


@pytest.mark.parametrize("name", ["", "a b", "a:b", "x" * 101, 5], ids=repr)
async def test_a_signals_name_is_checked(client: Client, refused: Any, name: Any):
    await client.submit("idle", id="t")

    await refused(InvalidRequest, "signal name", client.signal("t", name))


@pytest.mark.parametrize("payload", [Opaque(), math.nan, "x" * LIMIT], ids=["object", "nan", "large"])
async def test_a_signals_payload_is_checked(client: Client, refused: Any, payload: Any):
    await client.submit("idle", id="t")

    await refused(InvalidRequest, "payload of signal go", client.signal("t", "go", payload))


async def test_a_signals_key_is_checked(client: Client, refused: Any):
    await client.submit("idle", id="t")

    await refused(InvalidId, "signal key is 'a b'", client.signal("t", "go", key="a b"))


@pytest.mark.parametrize(
    ("output", "kind", "match"),
    [
        ("five", InvalidInput, "result of step echo does not fit its type: Expected `int`, got `str`"),
        (Opaque(), InvalidInput, "output of step echo:1 cannot be written as JSON"),
        ("x" * LIMIT, PayloadTooLarge, "output of step echo:1 is 2,050 bytes"),
    ],
)
async def test_what_a_step_is_completed_with_by_hand_must_fit(
    client: Client, refused: Any, output: Any, kind: type[Exception], match: str
):
    await client.submit("planned", id="t")

    await refused(kind, match, client.complete_step("t", "echo:1", output))


@pytest.mark.parametrize("key", ["echo:2", "", None])
async def test_a_step_that_is_completed_by_hand_must_exist(client: Client, refused: Any, key: Any):
    await client.submit("planned", id="t")

    await refused(UnknownStep, f"task 't' has no step {key!r}", client.complete_step("t", key, 5))


async def test_a_resubmission_begins_at_one_of_two_places(client: Client, refused: Any):
    await client.submit("idle", id="t")

    from_: Any = "middle"
    await refused(
        InvalidRequest, 'from is \'middle\'; it must be "failed" or "start"', client.resubmit("t", from_)
    )


# What a step and a workflow give back


async def outcome(app: App, workflow: Any, database: Database) -> tuple[TaskFailed, list[Any]]:
    async with app.run(database.url, payload_bytes_max=LIMIT, inline_bytes_max=512, **FAST):
        await app.submit(workflow, id="t")
        with pytest.raises(TaskFailed) as failed:
            await app.handle("t").result(SOON)
        return failed.value, await app.steps("t")


class Bad(msgspec.Struct, frozen=True):
    """A result that cannot be kept, the type it was declared with, and what is said about it."""

    kind: Any
    value: Any
    message: str
    error: str = "InvalidInput"


RESULTS = {
    "object": Bad(Any, Opaque(), "cannot be written as JSON: values of type Opaque have no JSON form"),
    "nan": Bad(Any, math.nan, "cannot be written as JSON: NaN"),
    "typed nan": Bad(float, math.nan, "cannot be written as JSON: NaN"),
    "infinity": Bad(dict[str, float], {"a": math.inf}, "cannot be written as JSON: NaN"),
    "type": Bad(int, "five", "does not fit its type: Expected `int`, got `str`"),
    "struct": Bad(Package, None, "does not fit its type"),
    "model": Bad(Account, {"limit": 1}, "does not fit its type"),
    "large": Bad(str, "x" * LIMIT, "is 2,050 bytes of JSON; the limit is 2,048 bytes", "PayloadTooLarge"),
}


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("bad", RESULTS.values(), ids=RESULTS)
async def test_a_step_result_that_cannot_be_kept_is_a_final_failure_of_unknown_outcome(
    database: Database, bad: Bad, in_thread: bool
):
    """The work is done and nobody can be told what came of it: not tried again, but undone."""
    app = App("results")
    agent = app.agent("odd", retry=Retry(attempts=5, first="1ms"))
    calls: list[int] = []
    undone: list[Any] = []

    async def make():
        calls.append(current_step().attempt)
        return bad.value

    def make_in_thread():
        calls.append(current_step().attempt)
        return bad.value

    for function in (make, make_in_thread):
        function.__annotations__ = {"return": bad.kind}
    step: Any = agent.step(name="make")(make_in_thread if in_thread else make)

    @step.undo
    async def unmake(*, result: Any) -> None:
        undone.append((current_step().outcome, result))

    @app.workflow
    async def order() -> None:
        await step()

    failed, [record] = await outcome(app, order, database)

    assert (failed.state, failed.step) == ("undone", "make:1")
    assert failed.error is not None
    assert (failed.error["type"], failed.error["permanent"]) == (bad.error, True)
    assert failed.error["message"].startswith("result of step make ")
    assert bad.message in failed.error["message"]
    assert record.output is None
    assert calls == [1]
    assert undone == [("unknown", None)]


@pytest.mark.parametrize("bad", RESULTS.values(), ids=RESULTS)
async def test_a_workflow_result_that_cannot_be_kept_is_an_error_of_its_code(database: Database, bad: Bad):
    app = App("results")

    async def order():
        return bad.value

    order.__annotations__ = {"return": bad.kind}
    failed, _ = await outcome(app, app.workflow(order), database)

    assert failed.state == "error"
    assert failed.error is not None
    assert failed.error["type"] == bad.error
    assert failed.error["message"].startswith("result of workflow order ")
    assert bad.message in failed.error["message"]


@pytest.mark.parametrize(
    ("args", "error", "match"),
    [
        (("five",), "InvalidInput", "input of step twice does not fit its type: Expected `int`, got `str`"),
        ((), "InvalidInput", "step twice: missing a required argument: 'number'"),
        ((1, 2), "InvalidInput", "step twice: too many positional arguments"),
        ((math.nan,), "InvalidInput", "input of step twice cannot be written as JSON: NaN"),
    ],
)
async def test_a_step_called_with_a_wrong_argument_is_an_error_and_leaves_no_record(
    database: Database, args: Any, error: str, match: str
):
    app = App("results")
    agent = app.agent("math")
    calls: list[int] = []

    @agent.step
    async def twice(number: int) -> int:
        calls.append(number)
        return 2 * number

    @app.workflow
    async def order() -> None:
        await twice(*args)

    failed, steps = await outcome(app, order, database)

    assert failed.state == "error"
    assert failed.error is not None
    assert (failed.error["type"], failed.error["message"][: len(match)]) == (error, match)
    assert (steps, calls) == ([], [])


# Declarations


def declared(app: App) -> Any:
    return app.agent("declared")


def test_two_workflows_with_one_name_are_refused(app: App):
    with pytest.raises(InvalidDefinition, match="workflow 'idle' version 1 is declared twice"):

        @app.workflow(name="idle")
        async def other() -> None: ...


def test_two_versions_of_one_workflow_are_good(app: App):
    @app.workflow(name="idle", version=2)
    async def other() -> None: ...

    assert app.registry.workflow("idle") is other


def test_two_agents_with_one_name_are_refused(app: App):
    with pytest.raises(InvalidDefinition, match="agent 'echo' is declared twice"):
        app.agent("echo")


def test_two_steps_with_one_name_are_refused_whatever_their_agents(app: App):
    other = app.agent("other")

    with pytest.raises(InvalidDefinition, match=r"step 'echo' of agent 'other' .* \(by agent 'echo'\)"):

        @other.step
        async def echo() -> None: ...


def test_two_undos_of_one_step_are_refused(app: App):
    @declared(app).step
    async def book() -> None: ...

    @book.undo
    async def release() -> None: ...

    with pytest.raises(InvalidDefinition, match="step book has an undo already: release"):

        @book.undo
        async def release_again() -> None: ...


def test_a_workflow_is_an_async_def(app: App):
    with pytest.raises(InvalidDefinition, match="workflow plain must be an async def"):

        @app.workflow  # type: ignore[arg-type]
        def plain() -> None: ...


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_counts_from_one(app: App, version: int):
    with pytest.raises(InvalidDefinition, match=f"version is {version}; it must be at least 1"):

        @app.workflow(version=version)
        async def other() -> None: ...


async def missing(number: int) -> None: ...


async def another(number: int, seat: str, more: int) -> None: ...


async def renamed(number: int, place: str, *, result: int) -> None: ...


async def anything(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize("undo", [missing, another, renamed, anything])
def test_an_undo_takes_the_arguments_of_its_step_and_its_result(app: App, undo: Any):
    @declared(app).step
    async def book(number: int, seat: str) -> None: ...

    with pytest.raises(InvalidDefinition, match=rf"undo {undo.__name__} of step book .* \(number, seat\)"):
        book.undo(undo)


async def spread(*args: int) -> None: ...


async def spread_by_name(**kwargs: int) -> None: ...


async def nameless(number: int, /) -> None: ...


async def unknown_type(number: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821


async def unknown_result() -> NoSuchType: ...  # type: ignore[name-defined]  # noqa: F821


async def no_json(number: Package | Address) -> None: ...


@pytest.mark.parametrize("kind", ["step", "workflow"])
@pytest.mark.parametrize(
    ("function", "match"),
    [
        (spread, r"\*args cannot be recorded"),
        (spread_by_name, r"\*\*kwargs cannot be recorded"),
        (nameless, "number cannot be recorded"),
        (unknown_type, "name 'NoSuchType' is not defined"),
        (unknown_result, "name 'NoSuchType' is not defined"),
        (no_json, "cannot be read from JSON"),
    ],
)
async def test_a_signature_that_cannot_be_recorded_is_refused_at_the_start(
    app: App, database: Database, kind: str, function: Any, match: str
):
    """Not at the first task; and before the store is touched."""
    name = function.__name__
    declare: Any = declared(app).step if kind == "step" else app.workflow
    declare(function)

    with pytest.raises(InvalidDefinition, match=f"{kind} {name}: .*{match}"):
        async with app.run(database.url):
            raise AssertionError("the body must not begin")
    assert database.is_untouched()


@pytest.mark.parametrize("concurrency", [0, -1, 10_001])
def test_concurrency_has_limits(app: App, concurrency: int):
    with pytest.raises(InvalidRequest, match=f"concurrency is {concurrency}; .* between 1 and 10,000"):
        app.agent("other", concurrency=concurrency)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Retry(attempts=0), "Retry.attempts is 0; .* between 1 and 1,000"),
        (lambda: Retry(attempts=1001), "Retry.attempts is 1001"),
        (lambda: Retry(factor=0.5), "Retry.factor is 0.5"),
        (lambda: Retry(first="soon"), "Retry.first is 'soon'"),
        (lambda: Retry(cap="-1s"), "Retry.cap is '-1s'"),
        (lambda: Recovery(attempts=0), "Recovery.attempts is 0; .* between 1 and 1,000"),
        (lambda: Recovery(crashes=1001), "Recovery.crashes is 1001"),
        (lambda: Recovery(undo_attempts=0), "Recovery.undo_attempts is 0"),
        (lambda: Recovery(then="give up"), "Recovery.then is 'give up'; .* 'undo', 'wait', 'error'"),  # type: ignore[arg-type]
        (lambda: Recovery(wait="10"), "Recovery.wait is '10'"),
        (lambda: Breaker(failures=0), "Breaker.failures is 0"),
        (lambda: Breaker(probes=0), "Breaker.probes is 0"),
        (lambda: Breaker(open_for="x"), "Breaker.open_for is 'x'"),
    ],
)
def test_policies_have_limits(make: Callable[[], object], match: str):
    with pytest.raises(InvalidRequest, match=match):
        make()


@pytest.mark.parametrize("complete_by", ["soon", "0s", timedelta(0), 5, "101000d"])
def test_a_declared_complete_by_is_a_duration_above_nothing(app: App, complete_by: Any):
    with pytest.raises(InvalidRequest, match="complete_by is"):
        app.agent("other", complete_by=complete_by)
    with pytest.raises(InvalidRequest, match="complete_by is"):
        app.workflow(complete_by=complete_by)(missing)
    agent = declared(app)
    with pytest.raises(InvalidRequest, match="complete_by is"):
        agent.step(complete_by=complete_by)(missing)


@pytest.mark.parametrize("name", ["", "a b", "ü", "x" * 201])
def test_names_are_ids(app: App, name: str):
    """They become part of keys, and of addresses."""
    with pytest.raises(InvalidId, match="name of the app"):
        App(name)
    with pytest.raises(InvalidId, match="name of the agent"):
        app.agent(name)
    with pytest.raises(InvalidId, match="name of the workflow"):
        app.workflow(name=name)(missing)
    agent = declared(app)
    with pytest.raises(InvalidId, match="name of the step"):
        agent.step(name=name)(missing)


@pytest.mark.parametrize("name", ["1.book", "book:1"])
def test_a_steps_name_must_not_look_like_a_key(app: App, name: str):
    """``1.book:1`` is the key of ``book`` in the first branch."""
    agent = declared(app)

    with pytest.raises(InvalidId, match="name of the step"):
        agent.step(name=name)(missing)


def test_a_lambda_needs_a_name(app: App):
    agent = declared(app)

    with pytest.raises(InvalidId, match="name of the step is '<lambda>'"):
        agent.step(lambda: None)
    assert agent.step(name="named")(lambda: None).name == "named"


def test_a_plan_is_made_of_steps(app: App):
    with pytest.raises(InvalidDefinition, match="plan of workflow other"):

        @app.workflow(plan=[missing])  # type: ignore[list-item]
        async def other() -> None: ...


# Settings at the door


async def test_an_unknown_setting_is_refused_before_anything_is_opened(app: App, database: Database):
    with pytest.raises(InvalidSetting, match="no setting 'leese'"):
        async with app.run(database.url, leese="5s"):
            raise AssertionError("the body must not begin")
    with pytest.raises(InvalidSetting, match="no setting 'leese'"):
        app.client(database.url, leese="5s")
    assert database.is_untouched()


@pytest.mark.parametrize("url", ["postgres-ish", "mysql://x", "sqlite:x.db", "sqlite:///", ""])
async def test_a_store_of_unknown_kind_is_refused(app: App, url: Any):
    with pytest.raises(InvalidSetting, match="store"):
        async with app.run(url):
            raise AssertionError("the body must not begin")


async def test_bad_input_costs_the_running_app_nothing(app: App, database: Database):
    """The same door while the roles run: refused one by one, and the next good one goes through."""
    async with app.run(database.url, **FAST):
        calls = [app.submit("store", bad) for bad in (math.nan, Opaque(), "\ud800")]
        answers = await asyncio.gather(*calls, app.submit("store", 1, id="t"), return_exceptions=True)
        assert [type(answer) for answer in answers[:-1]] == [InvalidInput] * 3
        assert await app.handle("t").result(SOON) is None
