"""``backstay jobs``: what is to run and when; make, run, hold back, delete; and what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import typer

from backstay.cli import job_files, job_preview
from backstay.cli.access import JobDesk
from backstay.cli.arguments import LimitOption, YesOption, check_meant, checked_limit
from backstay.cli.job_documents import Wishes
from backstay.cli.job_options import (
    BodyOption,
    CallOption,
    CatchUpOption,
    CountOption,
    DisabledOption,
    EveryOption,
    FileOption,
    HeaderOption,
    InputOption,
    LocationOption,
    MethodOption,
    OverlapOption,
    SkuOption,
    StartOption,
    UntilOption,
    WorkflowOption,
)
from backstay.cli.job_tables import (
    collection_facts,
    collection_table,
    history_table,
    job_facts,
    job_table,
)
from backstay.cli.job_where import Full, Where, add, collection_if_there
from backstay.cli.json_files import read_json
from backstay.cli.render import console, note, print_json, say
from backstay.cli.tables import fact_grid
from backstay.clock import SystemClock
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.records import CollectionId, EntryStatus, JobState
from backstay.domain.jobs.resources import Place

FILE_BYTES_MAX: Final = 1024**2
#: Where a collection is that nobody gave a location: REST clients want to see one.
LOCATION: Final = "local"

_EXAMPLE: Final = 'a job as in {"properties": {"action": …}}'

commands: Final = typer.Typer(
    help="Run things on a timetable: create jobs and collections of them, see what became of each.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="COLLECTION, COLLECTION/JOB, or the id of one of them.", show_default=False
    ),
]
JobArgument = Annotated[
    str,
    typer.Argument(metavar="COLLECTION/JOB", help="The job, by its name or its id.", show_default=False),
]
SkipOption = Annotated[int, typer.Option("--skip", metavar="N", min=0, help="Leave out the first N.")]


# Look


@add(commands, "collections")
def collections(at: Where) -> None:
    """List collections: those of the subscription, or of one --group."""

    async def found(desk: JobDesk) -> list[Json]:
        return [one async for one in at.collections(desk)]

    at.show_list(
        at.ask(found),
        table=collection_table,
        nothing="there are no collections; `backstay jobs create NAME` makes one",
    )


@add(commands, "ls")
def ls(
    at: Where,
    collection: Annotated[
        str | None,
        typer.Argument(metavar="COLLECTION", help="Only its jobs.", show_default=False),
    ] = None,
    state: Annotated[
        JobState | None,
        typer.Option("--state", case_sensitive=False, help="Only those in this state.", show_default=False),
    ] = None,
    limit: LimitOption = 1_000,
    skip: SkipOption = 0,
) -> None:
    """List jobs: those of a collection, or of all that `collections` lists."""
    wanted = checked_limit(limit)
    given = None if collection is None else at.place(collection)
    if given is not None and given.job is not None:
        raise typer.BadParameter(f"{collection} names a job; `show` shows it", param_hint="COLLECTION")

    async def found(desk: JobDesk) -> list[Json]:
        if given is not None:
            return await desk.jobs(given.collection, state=state, skip=skip, limit=wanted)
        return await _jobs_everywhere(at, desk, state, skip=skip, limit=wanted)

    at.show_list(
        at.ask(found),
        table=lambda jobs: job_table(jobs, now=SystemClock().now()),
        nothing="there are no such jobs",
        full=Full(limit, skip),
    )


async def _jobs_everywhere(
    at: Where, desk: JobDesk, state: JobState | None, *, skip: int, limit: int
) -> list[Json]:
    found: list[Json] = []
    async for one in at.collections(desk):
        found += await desk.jobs(at.place(one["id"]).collection, state=state)
        if len(found) >= skip + limit:
            break
    return found[skip : skip + limit]


@add(commands, "show")
def show(at: Where, name: NameArgument) -> None:
    """Show a job, or a collection."""
    place = at.place(name)

    async def found(desk: JobDesk) -> Json:
        if place.job is None:
            return await desk.collection(place.collection)
        return await desk.job(place.collection, place.job)

    document = at.ask(found)
    if at.json:
        print_json(document)
        return
    facts = collection_facts(document) if place.job is None else job_facts(document, now=SystemClock().now())
    console().print(fact_grid(facts))


@add(commands, "history")
def history(
    at: Where,
    job: JobArgument,
    status: Annotated[
        EntryStatus | None,
        typer.Option("--status", case_sensitive=False, help="Only those of this status.", show_default=False),
    ] = None,
    limit: LimitOption = 100,
    skip: SkipOption = 0,
) -> None:
    """List what became of a job: every attempt, and what was skipped, the newest first."""
    place, name = at.job(job)
    wanted = checked_limit(limit)
    found = at.ask(lambda desk: desk.history(place.collection, name, status=status, skip=skip, limit=wanted))
    at.show_list(
        found,
        table=history_table,
        nothing=f"there is nothing to tell of {place.name} yet",
        full=Full(limit, skip),
    )


# Make


@add(commands, "create")
def create(
    at: Where,
    *,
    name: NameArgument,
    file: FileOption = None,
    call: CallOption = None,
    method: MethodOption = None,
    body: BodyOption = None,
    headers: HeaderOption = None,
    workflow: WorkflowOption = None,
    input: InputOption = None,
    every: EveryOption = None,
    start: StartOption = None,
    count: CountOption = None,
    until: UntilOption = None,
    catch_up: CatchUpOption = None,
    overlap: OverlapOption = None,
    disabled: DisabledOption = False,
    sku: SkuOption = None,
    location: LocationOption = None,
) -> None:
    """Make a job or a collection, or put another in its place.

    The options stand for the usual documents; --file takes any. Without a time a job runs at once.
    """
    place = at.place(name)
    wishes = Wishes(
        call=call,
        method=method,
        body=body,
        headers=headers or (),
        workflow=workflow,
        input=input,
        every=every,
        at=start,
        count=count,
        until=until,
        catch_up=catch_up,
        overlap=overlap,
        disabled=disabled,
    )
    if place.job is None:
        _create_collection(at, place, wishes, file=file, sku=sku, location=location)
    elif sku or location:
        raise typer.BadParameter("--sku and --location belong to a collection; write its name alone")
    else:
        _create_job(at, place.collection, place.job, wishes, file=file)


def _create_job(at: Where, collection: CollectionId, name: str, wishes: Wishes, *, file: str | None) -> None:
    if file is not None and wishes.names():
        raise typer.BadParameter("the file is the whole document; leave the other options out")
    now = SystemClock().now()
    document = wishes.document(now=now) if file is None else _read(file)
    job, new = at.ask(lambda desk: desk.put_job(collection, name, document))
    if at.json:
        print_json(job)
        return
    say(f"job {job['name']} is {'made' if new else 'replaced'}")
    _note_next(job)


def _create_collection(
    at: Where, place: Place, wishes: Wishes, *, file: str | None, sku: str | None, location: str | None
) -> None:
    # A collection, too, may be made disabled.
    state = {"state": "Disabled"} if wishes.disabled else {}
    if wishes.names() - {"disabled"}:
        raise typer.BadParameter(f"{place.name} names a collection; a job is COLLECTION/JOB")
    if file is not None and (sku or location or state):
        raise typer.BadParameter("the file is the whole document; leave the other options out")

    async def put(desk: JobDesk) -> tuple[Json, bool]:
        kept = await collection_if_there(desk, place.collection)
        where = location or (LOCATION if kept is None else kept["location"])
        properties = {**({"sku": {"name": sku}} if sku else {}), **state}
        document = {"location": where, "properties": properties} if file is None else _read(file)
        return await desk.put_collection(place.collection, document), kept is None

    collection, new = at.ask(put)
    if at.json:
        print_json(collection)
    else:
        say(f"collection {collection['name']} is {'made' if new else 'replaced'}")


def _read(file: str) -> object:
    return read_json(file, example=_EXAMPLE, bytes_max=FILE_BYTES_MAX)


def _note_next(job: Json) -> None:
    properties = job["properties"]
    due = properties.get("status", {}).get("nextExecutionTime")
    note(f"it runs next at {due}" if due else f"it is {properties['state']}, and does not run")


# Change


@add(commands, "run")
def run(at: Where, job: JobArgument) -> None:
    """Have a job's action done now, whatever its times; they stay as they are."""
    place, name = at.job(job)
    at.ask(lambda desk: desk.run(place.collection, name))
    if not at.json:  # The HTTP interface answers without a body.
        say(f"job {place.name} is started")
        note(f"`backstay jobs history {place.name}` tells what became of it")


@add(commands, "enable")
def enable(at: Where, name: NameArgument) -> None:
    """Let a job run again, or those jobs of a collection that are enabled themselves."""
    _switch(at, name, "enabled", job=lambda desk: desk.enable, all_of=lambda desk: desk.enable_collection)


@add(commands, "disable")
def disable(at: Where, name: NameArgument) -> None:
    """Let a job not run, or none of a collection; what is at work comes to its end."""
    _switch(at, name, "disabled", job=lambda desk: desk.disable, all_of=lambda desk: desk.disable_collection)


def _switch(
    at: Where,
    name: str,
    state: str,
    *,
    job: Callable[[JobDesk], Callable[[CollectionId, str], Awaitable[Json]]],
    all_of: Callable[[JobDesk], Callable[[CollectionId], Awaitable[Json]]],
) -> None:
    place = at.place(name)

    async def switched(desk: JobDesk) -> Json:
        if place.job is None:
            return await all_of(desk)(place.collection)
        return await job(desk)(place.collection, place.job)

    document = at.ask(switched)
    if at.json:
        print_json(document)
    else:
        say(f"{_kind(document['name'])} is {state}")


@add(commands, "delete")
def delete(at: Where, name: NameArgument, yes: YesOption = False) -> None:
    """Delete a job with its history, or a collection with its jobs."""
    place = at.place(name)
    if place.job is None:
        check_meant(
            f"Delete {place.name} with its jobs and their history?",
            yes=yes,
            otherwise="nothing is deleted",
        )

    async def drop(desk: JobDesk) -> None:
        if place.job is None:
            await desk.delete_collection(place.collection)
        else:
            await desk.delete_job(place.collection, place.job)

    at.ask(drop)
    if not at.json:  # The HTTP interface answers without a body.
        say(f"{_kind(place.name)} is deleted")


def _kind(name: str) -> str:
    return f"job {name}" if "/" in name else f"collection {name}"


commands.command("preview")(job_preview.preview)
add(commands, "import")(job_files.import_)
add(commands, "export")(job_files.export)
