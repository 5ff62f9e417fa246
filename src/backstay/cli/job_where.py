"""What every command of jobs that needs a store or a server takes: where it works, and how it answers."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import typer
from rich.console import RenderableType

from backstay.cli.access import JobDesk, JsonOption, StoreOption, UrlOption, ask, desk_at
from backstay.cli.render import console, note, print_json
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.records import CollectionId
from backstay.domain.jobs.resources import Place, read_place
from backstay.errors import UnknownCollection
from backstay.settings import Settings

SubscriptionOption = Annotated[
    str | None,
    typer.Option(
        "--subscription",
        metavar="S",
        help="The subscription that collections are in; else the setting job_subscription.",
        show_default=False,
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="G",
        help="The resource group that collections are in; else the setting job_resource_group.",
        show_default=False,
    ),
]

Answer = TypeVar("Answer")


class Full(NamedTuple):
    """How many a list has when it has as many as were wanted, and how many are before them."""

    limit: int
    skip: int


@dataclass(frozen=True, kw_only=True)
class Where:
    """On which store or at which server, and in which subscription and group; and whether JSON is wanted."""

    subscription: SubscriptionOption = None
    group: GroupOption = None
    store: StoreOption = None
    url: UrlOption = None
    json: JsonOption = False

    @cached_property
    def names(self) -> dict[str, str]:
        """What a name that says no more is in."""
        chosen = Settings.load(
            {"store": self.store, "job_subscription": self.subscription, "job_resource_group": self.group}
        )
        return {"subscription": chosen.job_subscription, "resource_group": chosen.job_resource_group}

    def place(self, name: str) -> Place:
        return read_place(name, **self.names)

    def job(self, name: str) -> tuple[Place, str]:
        """A place that is a job's."""
        place = self.place(name)
        if place.job is None:
            raise typer.BadParameter(
                f"{name} names a collection; write COLLECTION/JOB", param_hint="COLLECTION/JOB"
            )
        return place, place.job

    def ask(self, question: Callable[[JobDesk], Awaitable[Answer]]) -> Answer:
        return ask(self.store, self.url, lambda desk: question(desk.jobroom))

    @asynccontextmanager
    async def desk(self) -> AsyncIterator[JobDesk]:
        """For what takes more than one question."""
        async with desk_at(self.store, self.url) as desk:
            yield desk.jobroom

    async def collections(self, desk: JobDesk) -> AsyncIterator[Json]:
        """All of the subscription, or of the group that was named."""
        skip = 0
        while found := await desk.collections(self.names["subscription"], self.group, skip=skip):
            for one in found:
                yield one
            skip += len(found)

    def show_list(
        self,
        found: list[Json],
        *,
        table: Callable[[list[Json]], RenderableType],
        nothing: str,
        full: Full | None = None,
    ) -> None:
        """A list as the REST API answers it, or as a table."""
        if self.json:
            print_json({"value": found, "nextLink": None})
        elif found:
            console().print(table(found))
        else:
            note(nothing)
        if full is not None and len(found) == full.limit:
            note(f"there may be more: repeat this command with --skip {full.skip + full.limit}")


async def collection_if_there(desk: JobDesk, id: CollectionId) -> Json | None:
    try:
        return await desk.collection(id)
    except UnknownCollection:
        return None


_SHARED: Final = tuple(one.name for one in fields(Where))


def add(commands: typer.Typer, verb: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a command that takes, beside its own parameters, those that make a Where; that comes first."""

    def added(function: Callable[..., None]) -> Callable[..., None]:
        own = [*inspect.signature(function, eval_str=True).parameters.values()][1:]
        shared = inspect.signature(Where, eval_str=True).parameters.values()

        @wraps(function)
        def command(**given: Any) -> None:
            function(Where(**{name: given.pop(name) for name in _SHARED}), **given)

        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own, *shared)]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        del command.__wrapped__  # Else its signature is taken for this one's.
        commands.command(verb)(command)
        return function

    return added
