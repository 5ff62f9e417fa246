"""``backstay jobs import`` and ``export``: collections and jobs in files, as the REST API answers them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import msgspec
import typer

from backstay.cli.access import JobDesk
from backstay.cli.job_import import Importer, Report
from backstay.cli.job_where import Where
from backstay.cli.json_files import read_json
from backstay.cli.render import complain, note, print_json, say, visible
from backstay.domain.jobs.documents import missing_secrets
from backstay.domain.jobs.merging import Json
from backstay.domain.jobs.resources import resources
from backstay.errors import Unavailable

FILE_BYTES_MAX: Final = 256 * 1024**2
SECRETS_BYTES_MAX: Final = 16 * 1024**2
#: After so many it is told how far it has got.
EVERY: Final = 1_000

_EXAMPLE: Final = 'collections and jobs as the REST API answers them, as in {"value": […]}'
_SECRETS_EXAMPLE: Final = '{"jc1/j1": {"action.request.authentication.password": "…"}}'


# Import


def import_(
    at: Where,
    *,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="What `export` wrote, or a list that the REST API answered; else standard input.",
            show_default=False,
        ),
    ] = None,
    named: Annotated[
        str | None, typer.Option("--file", metavar="F", help="The same, as `export` takes it.")
    ] = None,
    secrets: Annotated[
        str | None,
        typer.Option("--secrets", metavar="F", help=f"Secrets that the file lacks: {_SECRETS_EXAMPLE}."),
    ] = None,
    disabled: Annotated[
        bool,
        typer.Option("--disabled", help="Its collections are disabled: nothing runs until `jobs enable`."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what is wrong with the documents; write nothing.")
    ] = False,
) -> None:
    """Put collections and jobs from a file, each whole or not at all.

    They go where their ids say, unless --subscription or --group says otherwise.
    """
    if file is not None and named is not None:
        raise typer.BadParameter("the file is given twice", param_hint="--file")
    source = file or named or "-"
    documents = resources(read_json(source, example=_EXAMPLE, bytes_max=FILE_BYTES_MAX, option="FILE"))
    importer = Importer(
        at.names,
        subscription=at.subscription,
        resource_group=at.group,
        secrets=_secrets(secrets),
        disabled=disabled,
        dry_run=dry_run,
    )
    report = asyncio.run(_import(at, importer, documents))
    if at.json:
        print_json(report)
    else:
        _show(report, dry_run=dry_run)
    if report.refused:
        raise typer.Exit(1)


async def _import(at: Where, importer: Importer, documents: list[Any]) -> Report:
    done = 0
    try:
        async with at.desk() as desk:
            async for done in importer.put_all(desk, documents):
                if done % EVERY == 0:
                    note(f"{done:,} of {len(documents):,}")
    except Unavailable:
        note(f"{done:,} of {len(documents):,} were dealt with; import the file again")
        raise
    return importer.report


def _secrets(file: str | None) -> dict[str, dict[str, str]]:
    if file is None:
        return {}
    given = read_json(file, example=_SECRETS_EXAMPLE, bytes_max=SECRETS_BYTES_MAX, option="--secrets")
    try:
        return msgspec.convert(given, dict[str, dict[str, str]])
    except msgspec.ValidationError:  # It would say where, and its words may be a secret's.
        raise typer.BadParameter(
            f"it must be an object of objects of text; write {_SECRETS_EXAMPLE}", param_hint="--secrets"
        ) from None


def _show(report: Report, *, dry_run: bool) -> None:
    for one in report.skipped:
        note(f"{one.name} is left out: {one.reason}")
    for refused in report.refused:
        complain(f"{refused.name}: {refused.reason}")
    if dry_run:
        say(f"nothing is written; {len(report.checked)} good, {len(report.refused)} refused")
        return
    say(f"{len(report.created)} created, {len(report.updated)} updated, {len(report.refused)} refused")


# Export


def export(
    at: Where,
    collection: Annotated[
        str | None,
        typer.Argument(metavar="COLLECTION", help="Only this one and its jobs.", show_default=False),
    ] = None,
    file: Annotated[
        str, typer.Option("--file", metavar="F", help="Where to; - writes to standard output.")
    ] = "-",
) -> None:
    """Write collections and jobs as the REST API answers them: without secrets, which nobody is shown."""
    asyncio.run(_export(at, collection, file))


async def _export(at: Where, collection: str | None, file: str) -> None:
    number, secrets = 0, 0
    async with at.desk() as desk:
        with _written(file) as stream:
            stream.write('{"value": [')
            async for one in _resources(at, desk, collection):
                stream.write(",\n" if number else "\n")
                stream.write(msgspec.json.encode(one).decode())
                number += 1
                if number % EVERY == 0:
                    note(f"{number:,} written")
                for place in _secrets_of(one):
                    secrets += 1
                    note(f"{one['name']}: {place} is not in it")
            stream.write('\n], "nextLink": null}\n')
    if secrets:
        note(f"{secrets} secrets are not in it; give them to `import` again, with --secrets")
    if file != "-":
        say(f"{number} written to {file}")


async def _resources(at: Where, desk: JobDesk, collection: str | None) -> AsyncIterator[Json]:
    """Each collection, and behind it its jobs."""
    if collection is None:
        async for one in at.collections(desk):
            async for resource in _with_jobs(at, desk, one):
                yield resource
        return
    async for resource in _with_jobs(at, desk, await desk.collection(at.place(collection).collection)):
        yield resource


async def _with_jobs(at: Where, desk: JobDesk, collection: Json) -> AsyncIterator[Json]:
    yield collection
    for job in await desk.jobs(at.place(collection["id"]).collection):
        yield job


def _secrets_of(resource: Mapping[str, Any]) -> list[str]:
    return missing_secrets(resource) if "action" in resource["properties"] else []


@contextlib.contextmanager
def _written(file: str) -> Iterator[TextIO]:
    """The file, once all of it is written: half an export is none."""
    if file == "-":
        yield sys.stdout
        return
    path, part = Path(file), Path(f"{file}.part")
    try:
        with part.open("w", encoding="utf-8") as stream:
            yield stream
        part.replace(path)
    except OSError as error:
        raise typer.BadParameter(
            f"it cannot be written: {visible(str(error))}", param_hint="--file"
        ) from error
    finally:
        part.unlink(missing_ok=True)
