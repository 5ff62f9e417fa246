"""``backstay streams``: what is in them, how far groups have got; append, put back, forget."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Final

import typer

from backstay.cli.access import JsonOption, StoreOption, UrlOption, ask, desk_at
from backstay.cli.appending import append_lines
from backstay.cli.arguments import (
    CursorOption,
    LimitOption,
    ReasonOption,
    YesOption,
    check_meant,
    checked_limit,
    json_value,
    key_of,
)
from backstay.cli.render import note, print_json, say, show_page
from backstay.cli.stream_tables import lag_table, quarantine_table, stream_table
from backstay.cli.tail import Tail
from backstay.clock import SystemClock
from backstay.views import Page

commands: Final = typer.Typer(
    help="See what is in streams, and how far their groups have got; append, and put back.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

StreamArgument = Annotated[
    str, typer.Argument(metavar="STREAM", help="The name of the stream.", show_default=False)
]
GroupOption = Annotated[
    str | None, typer.Option("--group", metavar="G", help="Of this group only.", show_default=False)
]


@commands.command("ls")
def ls(
    *,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """List streams, how much is in them, and how far behind their groups are."""
    wanted = checked_limit(limit)
    page = ask(store, url, lambda desk: desk.streamroom.streams(after=cursor, limit=wanted))
    show_page(page, json=json, table=stream_table, nothing="there are no streams")


@commands.command("create")
def create(
    *,
    stream: StreamArgument,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", metavar="N", help="How many, for ever; 32 if nobody says.", show_default=False
        ),
    ] = None,
    retention: Annotated[
        str | None, typer.Option("--retention", metavar="TIME", help="How long an event is kept.")
    ] = None,
    dedup: Annotated[
        str | None, typer.Option("--dedup", metavar="TIME", help="So long an id means the same event.")
    ] = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Make a stream, or give one other terms."""
    view, new = ask(
        store,
        url,
        lambda desk: desk.streamroom.declare(stream, partitions=partitions, retention=retention, dedup=dedup),
    )
    if json:
        print_json(view)
    else:
        say(f"stream {view.name} is {'made' if new else 'there, under these terms'}")


@commands.command("append")
def append(
    *,
    stream: StreamArgument,
    body: Annotated[
        str,
        typer.Argument(
            metavar="JSON",
            help='The event; - reads lines of {"body", "key"?, "id"?, "headers"?} from standard input.',
            show_default=False,
        ),
    ],
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="Events of one key stay in order.", show_default=False),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="With an id it is appended once.", show_default=False),
    ] = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Append an event, or as many as there are lines on standard input."""
    if body == "-":
        if key is not None or id is not None:
            raise typer.BadParameter("of lines, each says its own key and id", param_hint="--key, --id")
        append_lines(stream, store, url, json=json)
        return
    value = json_value(body, example='{"order": 7}')
    appended = ask(store, url, lambda desk: desk.streamroom.append(stream, value, key=key, id=id))
    if json:
        print_json(appended)
        return
    say(f"{appended.partition}/{appended.offset}")
    if appended.duplicate:
        note("an event of this id was appended before; it was not appended again")


@commands.command("tail")
def tail(
    *,
    stream: StreamArgument,
    partition: Annotated[
        int | None,
        typer.Option("--partition", metavar="P", help="This one only.", show_default=False),
    ] = None,
    start: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="OFFSET",
            help="Begin here in every partition; 0 is the beginning. Without it: what comes from now on.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more at the end, or stop there.")
    ] = True,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", help="Stop after so many events.", min=1, show_default=False),
    ] = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Show events as they come. Ctrl-C ends the showing, and nothing else."""

    async def showing() -> None:
        async with desk_at(store, url) as desk:
            await Tail(desk.streamroom, stream, json=json, limit=limit).run(
                partition=partition, start=start, follow=follow
            )

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(showing())


@commands.command("lag")
def lag(
    *,
    stream: StreamArgument,
    group: GroupOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Show how far each group has got in each partition, and who reads it."""
    view = ask(store, url, lambda desk: desk.streamroom.stream(stream))
    groups = [one for one in view.groups if group in (None, one.group)]
    show_page(
        Page(groups),
        json=json,
        table=lambda groups: lag_table(groups, now=SystemClock().now()),
        nothing=f"no group reads {stream}" if group is None else f"group {group} never read {stream}",
    )


@commands.command("quarantine")
def quarantine(
    *,
    stream: StreamArgument,
    group: GroupOption = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """List events that a group could not process, and why."""
    after, wanted = key_of(cursor), checked_limit(limit)
    page = ask(
        store, url, lambda desk: desk.streamroom.quarantine(stream, group=group, after=after, limit=wanted)
    )
    show_page(
        page,
        json=json,
        table=lambda events: quarantine_table(events, now=SystemClock().now()),
        nothing=f"nothing of {stream} was set aside",
    )


@commands.command("resubmit")
def resubmit(
    *,
    stream: StreamArgument,
    id: Annotated[
        int | None,
        typer.Argument(metavar="ID", help="The event, as `quarantine` lists it.", min=1, show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, up to 1,000.")] = False,
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Have an event in quarantine processed again by its group, or all of them."""
    if (id is None) is not everything:
        raise typer.BadParameter("name one event, or say --all", param_hint="ID")
    done = ask(store, url, lambda desk: desk.streamroom.resubmit(stream, id, reason=reason))
    if json:
        print_json(done)
    else:
        say(f"{done.resubmitted} of {stream} will be processed again")


@commands.command("forget")
def forget(
    *,
    stream: StreamArgument,
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="The group, as `lag` lists it.", show_default=False)
    ],
    yes: YesOption = False,
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Forget how far a group has got, and what it set aside; asks if there is a terminal to ask on.

    Whoever reads for it next begins at the first event there is. Nobody may read for it meanwhile.
    """
    check_meant(
        f"Forget how far group {group} has got in {stream}, and what it set aside?",
        yes=yes,
        otherwise="nothing was forgotten",
    )
    gone = ask(store, url, lambda desk: desk.streamroom.forget(stream, group, reason=reason))
    if json:
        print_json(gone)
    else:
        say(f"group {gone.group} of {gone.stream} is forgotten")
