"""``backstay queues``: what is in them, what was set aside; send, put back, discard, delete."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from backstay.cli.access import JsonOption, StoreOption, UrlOption, ask
from backstay.cli.arguments import (
    CursorOption,
    LimitOption,
    ReasonOption,
    checked_limit,
    json_value,
    key_of,
    pair,
)
from backstay.cli.render import note, print_json, say, show_page
from backstay.cli.tables import dead_table, message_table, queue_table
from backstay.clock import SystemClock

commands: Final = typer.Typer(
    help="See what waits in queues and what was set aside; send, put back, discard, delete.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The name of the queue.", show_default=False)
]

DeadLetterArgument = Annotated[
    str | None,
    typer.Argument(metavar="ID", help="The dead letter, as `dead` lists it.", show_default=False),
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
    """List queues and how many messages are in them."""
    wanted = checked_limit(limit)
    page = ask(store, url, lambda desk: desk.mailroom.queues(after=cursor, limit=wanted))
    show_page(page, json=json, table=queue_table, nothing="there are no queues")


@commands.command("create")
def create(
    *,
    queue: QueueArgument,
    lock: Annotated[
        str | None, typer.Option("--lock", metavar="TIME", help="How long a received message is locked.")
    ] = None,
    max_deliveries: Annotated[
        int | None,
        typer.Option("--max-deliveries", metavar="N", help="After so many a message is set aside."),
    ] = None,
    dedup: Annotated[
        str | None, typer.Option("--dedup", metavar="TIME", help="So long an id means the same message.")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option("--ttl", metavar="TIME", help="So long a message may be received.")
    ] = None,
    dead_letter_expired: Annotated[
        bool,
        typer.Option("--dead-letter-expired", help="Set expired messages aside instead of dropping them."),
    ] = False,
    sessions: Annotated[
        bool, typer.Option("--sessions", help="Every message must belong to a session.")
    ] = False,
    max_messages: Annotated[
        int | None,
        typer.Option("--max-messages", metavar="N", help="So many may be in it; it then takes no more."),
    ] = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Make a queue, or give one other terms."""
    view, new = ask(
        store,
        url,
        lambda desk: desk.mailroom.declare(
            queue,
            lock=lock,
            max_deliveries=max_deliveries,
            dedup=dedup,
            ttl=ttl,
            dead_letter_expired=dead_letter_expired,
            sessions=sessions,
            max_messages=max_messages,
        ),
    )
    if json:
        print_json(view)
    else:
        say(f"queue {view.name} is {'made' if new else 'there, under these terms'}")


@commands.command("peek")
def peek(
    *,
    queue: QueueArgument,
    limit: LimitOption = 100,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Show what would be received next. Nothing is locked, and nothing counts."""
    wanted = checked_limit(limit)
    page = ask(store, url, lambda desk: desk.mailroom.peek(queue, limit=wanted))
    show_page(
        page,
        json=json,
        table=lambda messages: message_table(messages, now=SystemClock().now()),
        nothing=f"there is nothing in {queue}",
    )


@commands.command("send")
def send(
    *,
    queue: QueueArgument,
    body: Annotated[
        str,
        typer.Argument(
            metavar="JSON",
            help="The message; null if it is left out; - reads standard input.",
            show_default=False,
        ),
    ] = "null",
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="With an id it is sent once.", show_default=False)
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="S", help="Messages of one session stay in order."),
    ] = None,
    priority: Annotated[
        int, typer.Option("--priority", metavar="N", help="From -10 to 10; the higher, the sooner.")
    ] = 0,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A property; may be repeated."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="WHEN", help="Not before: an instant, or a time from now such as 5m."),
    ] = None,
    ttl: Annotated[
        str | None, typer.Option("--ttl", metavar="TIME", help="So long it may be received.")
    ] = None,
    topic: Annotated[bool, typer.Option("--topic", help="QUEUE is a topic.")] = False,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Send a message to a queue, or to every subscription of a topic that matches."""
    value = json_value(body, example='{"order": 7}')
    given = dict(pair(one, "=", option="--property", what="property") for one in properties or ())
    sent = ask(
        store,
        url,
        lambda desk: desk.mailroom.send(
            queue,
            value,
            topic=topic,
            id=id,
            session=session,
            priority=priority,
            properties=given,
            at=at,
            ttl=ttl,
        ),
    )
    if json:
        print_json(sent)
        return
    say(sent.id)
    if sent.duplicate:
        note("a message of this id was sent before; it was not sent again")


@commands.command("dead")
def dead(
    *,
    queue: QueueArgument,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """List what was set aside, and why."""
    after, wanted = key_of(cursor), checked_limit(limit)
    page = ask(store, url, lambda desk: desk.mailroom.dead_letters(queue, after=after, limit=wanted))
    show_page(
        page,
        json=json,
        table=lambda letters: dead_table(letters, now=SystemClock().now()),
        nothing=f"nothing of {queue} was set aside",
    )


@commands.command("resubmit")
def resubmit(
    *,
    queue: QueueArgument,
    id: DeadLetterArgument = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, up to 1,000.")] = False,
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Put a dead letter back at the end of its queue, or all of them."""
    _check_one_or_all(id, everything=everything)
    done = ask(store, url, lambda desk: desk.mailroom.resubmit(queue, id, reason=reason))
    if json:
        print_json(done)
    else:
        say(f"{done.resubmitted} put back into {queue}")


@commands.command("discard")
def discard(
    *,
    queue: QueueArgument,
    id: DeadLetterArgument = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, up to 5,000.")] = False,
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Drop a dead letter for good, or all of them."""
    _check_one_or_all(id, everything=everything)
    done = ask(store, url, lambda desk: desk.mailroom.discard(queue, id, reason=reason))
    if json:
        print_json(done)
    else:
        say(f"{done.discarded} dropped from {queue}")


@commands.command("delete")
def delete(
    *,
    queue: QueueArgument,
    force: Annotated[bool, typer.Option("--force", help="With the messages that are in it.")] = False,
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Delete a queue, or a subscription (TOPIC:NAME); one that is not empty only with --force."""
    gone = ask(store, url, lambda desk: desk.mailroom.delete(queue, force=force, reason=reason))
    if json:
        print_json(gone)
    else:
        say(f"queue {gone.name} is deleted" + (f"; messages dropped: {gone.messages:,}" if force else ""))


def _check_one_or_all(id: str | None, *, everything: bool) -> None:
    if (id is None) is not everything:
        raise typer.BadParameter("name one dead letter, or say --all", param_hint="ID")
