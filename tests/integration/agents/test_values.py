"""What passes into a step or a workflow and out of it arrives as it was, live and after replay."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from backstay import App, Retry, start, wait_for
from tests.support.running import FAST, SOON, Down, until


class Colour(Enum):
    RED = "red"


class Package(msgspec.Struct, frozen=True):
    size: int
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Address:
    street: str
    since: date | None = None


class Account(pydantic.BaseModel):
    owner: str
    limit: Decimal = Decimal("1.50")


class Licence(pydantic.BaseModel):
    """As models are in the wild: strict, with other names outside than inside, and with derived fields."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    holder: str = pydantic.Field(alias="holderName")
    until: date
    points: tuple[int, ...] = ()

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        return sum(self.points)


VALUES: list[tuple[Any, Any]] = [
    (Package, Package(3, ("a", "b"))),
    (Address, Address("Main St", date(2030, 1, 2))),
    (Account, Account(owner="ann", limit=Decimal("2.25"))),
    (Licence, Licence(holderName="ann", until=date(2030, 1, 2), points=(1, 2))),
    (list[Account], [Account(owner="ann"), Account(owner="bob")]),
    (dict[str, Package], {"p": Package(1)}),
    (Package | None, None),
    (tuple[int, str], (1, "x")),
    (set[int], {1, 2, 3}),
    (datetime, datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)),
    (timedelta, timedelta(days=1, milliseconds=5)),
    (Decimal, Decimal("0.10")),
    (UUID, UUID(int=7)),
    (bytes, b"\x00\xff"),
    (Colour, Colour.RED),
    (float, 1.5),
    (int, 2**70),
    (str, "käse 🧀"),
    (dict[int, str], {1: "one"}),
]


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda one: str(one)[:30])
async def test_a_typed_value_arrives_in_the_step_and_comes_back_unchanged(
    app: App, url: str, kind: Any, value: Any, in_thread: bool
):
    arrived: list[Any] = []
    agent = app.agent("echo")

    async def echo(value):
        arrived.append(value)
        return value

    def echo_in_thread(value):
        arrived.append(value)
        return value

    async def relay(value):
        arrived.append(value)
        return await step(value)

    for function in (echo, echo_in_thread, relay):
        function.__annotations__ = {"value": kind, "return": kind}
    step: Any = agent.step(echo_in_thread if in_thread else echo)
    workflow = app.workflow(relay)

    async with app.run(url, **FAST):
        handle = await app.submit(workflow, value)
        result = await handle.result(SOON)

    assert [*arrived, result] == [value] * 3
    assert {type(one) for one in [*arrived, result]} == {type(value)}


@pytest.mark.parametrize(
    "value",
    [
        (1, (2, 3)),
        {1, 2},
        {3: "three"},
        Package(3, ("a",)),
        datetime(2030, 1, 1, tzinfo=UTC),
        Decimal("1.10"),
        b"x",
    ],
    ids=str,
)
async def test_an_untyped_value_is_the_same_live_and_after_replay(app: App, url: str, value: Any):
    """What passes through a step passes through JSON even the first time."""
    seen: list[Any] = []
    agent = app.agent("echo")

    @agent.step
    async def fetch():
        return value

    @app.workflow
    async def remember() -> None:
        seen.append(await fetch())
        await wait_for("go")

    async with app.run(url, **FAST):
        handle = await app.submit(remember, id="t")
        await until(app, "t", "waiting")
        await app.signal("t", "go")
        await handle.result(SOON)

    live, replayed = seen
    assert live == replayed
    assert repr(live) == repr(replayed)


async def test_what_a_step_does_to_its_argument_stays_in_the_step(app: App, url: str):
    """Also when it is tried again: each try gets what was recorded."""
    given: list[list[int]] = []
    agent = app.agent("list", retry=Retry(attempts=2, first="1ms"))

    @agent.step
    async def spoil(numbers: list[int]) -> int:
        given.append(list(numbers))
        numbers.append(99)
        if len(given) == 1:
            raise Down
        return len(numbers)

    @app.workflow
    async def count() -> list[int]:
        numbers = [1, 2]
        await spoil(numbers)
        return numbers

    async with app.run(url, **FAST):
        handle = await app.submit(count)
        assert await handle.result(SOON) == [1, 2]

    assert given == [[1, 2], [1, 2]]


async def test_several_arguments_defaults_and_keywords_are_recorded_by_name(app: App, url: str):
    agent = app.agent("echo")

    @agent.step
    async def tell(first: int, second: str = "two", *, third: float = 3.0) -> str:
        return f"{first} {second} {third}"

    @app.workflow
    async def both(first: int, *, second: str = "zwei") -> list[str]:
        return [await tell(first), await tell(first, second), await tell(first=first, third=1.5)]

    async with app.run(url, **FAST):
        by_position = await app.submit(both, 7, "deux", id="a")
        by_name = await app.submit(both, {"first": 7, "second": "deux"}, id="b")
        by_default = await app.submit(both, {"first": 7}, id="c")
        one_given = await app.submit(both, 7, id="d")
        assert await by_position.result(SOON) == ["7 two 3.0", "7 deux 3.0", "7 two 1.5"]
        assert await by_name.result(SOON) == await by_position.result()
        assert await by_default.result(SOON) == ["7 two 3.0", "7 zwei 3.0", "7 two 1.5"]
        assert await one_given.result(SOON) == await by_default.result()
        inputs = [step.input for step in await app.steps("a")]
        assert (await app.task("a")).input == {"first": 7, "second": "deux"}

    assert inputs == [
        {"first": 7, "second": "two", "third": 3.0},
        {"first": 7, "second": "deux", "third": 3.0},
        {"first": 7, "second": "two", "third": 1.5},
    ]


async def test_no_argument_and_no_result_are_null(app: App, url: str):
    agent = app.agent("echo")

    @agent.step
    async def nothing() -> None: ...

    @app.workflow
    async def idle() -> None:
        return await nothing()

    async with app.run(url, **FAST):
        handle = await app.submit(idle, id="t")
        assert await handle.result(SOON) is None
        [step] = await app.steps("t")
        task = await app.task("t")

    assert (step.input, step.output, task.input, task.output) == (None, None, None, None)


async def test_a_child_takes_its_input_as_a_submission_does(app: App, url: str):
    @app.workflow
    async def add(first: int, second: int = 10) -> int:
        return first + second

    @app.workflow
    async def sums() -> list[int]:
        return [await start(add, 1, 2), await start(add, {"first": 1, "second": 3}), await start(add, 1)]

    async with app.run(url, **FAST):
        handle = await app.submit(sums)
        assert await handle.result(SOON) == [3, 4, 11]
