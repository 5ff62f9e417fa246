"""A declaration or a setting that cannot work is refused before anything runs or is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from backstay import App, Breaker, InvalidRequest, Recovery, Retry
from backstay.errors import InvalidDefinition, InvalidId, InvalidSetting
from tests.integration.bad_input.conftest import Address, Package
from tests.support.databases import Database

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


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda app: app.agent("a", retry=3), r"retry is 3; write retry=Retry\(…\)"),
        (lambda app: app.agent("a", breaker=3), r"breaker is 3; write breaker=Breaker\(…\)"),
        (lambda app: declared(app).step(retry=3)(print), r"retry is 3; write retry=Retry\(…\)"),
        (lambda app: app.workflow(recovery="undo"), r"recovery is 'undo'; write recovery=Recovery\(…\)"),
    ],
    ids=["retry", "breaker", "retry of a step", "recovery"],
)
def test_a_policy_that_is_none_is_refused_where_it_is_written(
    app: App, declare: Callable[[App], Any], said: str
):
    async def body() -> None: ...

    with pytest.raises(InvalidDefinition, match=said):
        declare(app)(body)


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
