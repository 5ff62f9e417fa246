"""A value that cannot be kept between a workflow and its steps is an error that says so."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from backstay import App, Retry, TaskFailed, current_step
from tests.integration.bad_input.conftest import LIMIT, Account, Opaque, Package
from tests.support.databases import Database
from tests.support.running import FAST, SOON


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
        (
            ("five",),
            "InvalidInput",
            "input of step twice does not fit its type: Expected `int`, got `str`; it is the value of",
        ),
        ((), "InvalidInput", "step twice: missing a required argument: 'number'; it takes number"),
        ((1, 2), "InvalidInput", "step twice: too many positional arguments; it takes number"),
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
