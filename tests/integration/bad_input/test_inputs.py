"""An input that no workflow can take is refused at the call, and nothing is written."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from backstay import App, Client
from backstay.errors import InvalidInput, PayloadTooLarge, UnknownWorkflow
from tests.integration.bad_input.conftest import LIMIT, Account, Opaque, Package
from tests.support.databases import Database
from tests.support.running import FAST, SOON

# Which workflow


async def test_an_unknown_workflow_is_refused_and_the_known_ones_are_named(client: Client, refused: Any):
    await refused(UnknownWorkflow, "no workflow 'fly'; registered: add, bill, idle", client.submit("fly", 1))


async def test_a_workflow_of_another_app_is_refused(client: Client, refused: Any):
    @App("other").workflow(version=7)
    async def ship(package: Package) -> None: ...

    await refused(UnknownWorkflow, "'ship' version 7", client.submit(ship, Package(1)))


@pytest.mark.parametrize("thing", [lambda: None, 5, None, object()], ids=lambda thing: type(thing).__name__)
async def test_what_is_not_a_workflow_is_refused(client: Client, refused: Any, thing: Any):
    await refused(InvalidInput, "is not a workflow; decorate it with @app.workflow", client.submit(thing))


async def test_a_workflow_that_was_called_is_to_be_given_with_its_arguments_apart(
    client: Client, refused: Any
):
    async def bill(cents: int) -> None: ...

    called: Any = bill(5)

    await refused(
        InvalidInput,
        r"bill\(…\) was called; give .* apart: submit\(bill, …\)",
        client.submit(called),
    )


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


# While the roles run


async def test_bad_input_costs_the_running_app_nothing(app: App, database: Database):
    """The same door while the roles run: refused one by one, and the next good one goes through."""
    async with app.run(database.url, **FAST):
        calls = [app.submit("store", bad) for bad in (math.nan, Opaque(), "\ud800")]
        answers = await asyncio.gather(*calls, app.submit("store", 1, id="t"), return_exceptions=True)
        assert [type(answer) for answer in answers[:-1]] == [InvalidInput] * 3
        assert await app.handle("t").result(SOON) is None
