"""``backstay jobs preview``: when a job would run. Neither a store nor a server is asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated, Any, Final

import msgspec
import typer

from backstay.cli.access import JsonOption
from backstay.cli.json_files import read_json
from backstay.cli.render import note, print_json, say
from backstay.clock import SystemClock
from backstay.domain.durations import describe, duration
from backstay.domain.recurrence import IMMEDIATELY, Timetable, read_job, read_moment
from backstay.errors import InvalidJob, InvalidRequest

COUNT_MAX: Final = 1_000
FILE_BYTES_MAX: Final = 16 * 1024**2
#: Of all documents of a file together.
OCCURRENCES_MAX: Final = 1_000_000

_EXAMPLE: Final = '{"properties": {"recurrence": {"frequency": "day"}}}'


class Preview(msgspec.Struct, frozen=True):
    """What ``jobs preview`` answers."""

    occurrences: list[str]
    description: str


class Refusal(msgspec.Struct, frozen=True):
    """What it answers in the place of a document, in a list of them, that is none."""

    error: str


class Previews(msgspec.Struct, frozen=True):
    """What it answers to a list of documents, in their order."""

    results: list[Preview | Refusal]


def preview(
    *,
    file: Annotated[
        str,
        typer.Option(
            "--file", metavar="F", help="The job's document, or a JSON array of them; - reads standard input."
        ),
    ] = "-",
    now: Annotated[
        str | None,
        typer.Option(
            "--now",
            metavar="INSTANT",
            help='When the job is created, if its document has no "now" of its own; else it is created now.',
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", metavar="N", help=f"At most so many occurrences, 1 to {COUNT_MAX}.")
    ] = 10,
    delay: Annotated[
        str,
        typer.Option("--delay", metavar="TIME", help="How long after its creation a job runs immediately."),
    ] = describe(IMMEDIATELY),
    json: JsonOption = False,
) -> None:
    """Tell when a job would run, and say it in a sentence."""
    if not 1 <= count <= COUNT_MAX:
        raise typer.BadParameter(f"{count} is out of range; ask for 1 to {COUNT_MAX}", param_hint="--count")
    previewer = _Previewer(now=_now(now), count=count, delay=duration(delay, name="--delay"))
    asked = read_json(file, example=f"a job as in {_EXAMPLE}", bytes_max=FILE_BYTES_MAX)
    answer = previewer.all_of(asked) if isinstance(asked, list) else previewer.one(asked)
    if json:
        print_json(answer)
    elif isinstance(answer, Preview):
        _show(answer)
    else:
        _show_all(answer)


class _Previewer(msgspec.Struct, frozen=True, kw_only=True):
    """Looks at documents, all in the same way."""

    now: datetime
    count: int
    delay: timedelta

    def all_of(self, documents: list[Any]) -> Previews:
        if len(documents) * self.count > OCCURRENCES_MAX:
            raise InvalidRequest(
                f"{len(documents):,} documents with --count {self.count} are more than {OCCURRENCES_MAX:,}"
                " occurrences; ask for fewer of each, or split the file"
            )
        return Previews([self.one_of_many(document) for document in documents])

    def one_of_many(self, document: Any) -> Preview | Refusal:
        try:
            return self.one(document)
        except InvalidJob as error:
            return Refusal(str(error))

    def one(self, document: Any) -> Preview:
        timing = read_job(document)
        table = Timetable(timing, created=self._created(document), delay=self.delay)
        occurrences = [table.text(due) for due in islice(table.occurrences(), self.count)]
        return Preview(occurrences, table.describe())

    def _created(self, document: Mapping[str, Any]) -> datetime:
        own = document.get("now")
        return self.now if own is None else read_moment(own, "now").at


def _now(written: str | None) -> datetime:
    return SystemClock().now() if written is None else read_moment(written, "--now").at


def _show_all(answer: Previews) -> None:
    for result in answer.results:
        if isinstance(result, Preview):
            _show(result)
        else:
            say(f"Error: {result.error}")


def _show(answer: Preview) -> None:
    say(answer.description)
    for occurrence in answer.occurrences:
        say(f"  {occurrence}")
    if not answer.occurrences:
        note("  it never runs: its end comes before")
