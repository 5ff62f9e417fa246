"""``backstay alerts``: what a person is called for."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import typer

from backstay.cli.access import JsonOption, StoreOption, UrlOption, ask
from backstay.cli.arguments import (
    KEY_MAX,
    CursorOption,
    LimitOption,
    ReasonOption,
    checked_limit,
    key_of,
)
from backstay.cli.render import print_json, say, show_page
from backstay.cli.tables import alert_table
from backstay.clock import SystemClock
from backstay.runtime import tell_test_alert
from backstay.settings import Settings
from backstay.store.records import AlertFilter
from backstay.views import Page

commands: Final = typer.Typer(
    help="See what a person is called for, and take it up.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@commands.command("ls")
def ls(
    *,
    open_only: Annotated[bool, typer.Option("--open", help="Only those that nobody has taken up.")] = False,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """List alerts, the newest first."""
    wanted = AlertFilter(open_only=open_only, before=key_of(cursor), limit=checked_limit(limit))
    page = ask(store, url, lambda desk: desk.alerts(wanted))
    show_page(
        page,
        json=json,
        table=lambda alerts: alert_table(alerts, now=SystemClock().now()),
        nothing="no alert is open" if open_only else "there are no alerts",
    )


@commands.command("ack")
def ack(
    alert_id: Annotated[
        int,
        typer.Argument(metavar="ID", help="The number of the alert.", min=1, max=KEY_MAX, show_default=False),
    ],
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Take an alert up. The first who does stays named."""
    alert = ask(store, url, lambda desk: desk.acknowledge(alert_id, reason=reason))
    if json:
        print_json(alert)
    else:
        say(f"alert {alert.id} is taken up by {alert.acknowledged_by}")


@commands.command("test")
def try_sinks(*, json: JsonOption = False) -> None:
    """Tell every sink of these settings of a test alert, and see what becomes of it."""
    told = asyncio.run(tell_test_alert(Settings.load()))
    if json:
        print_json(Page(told))
    elif not told:
        say("there is no sink: alert_webhook and alert_command are not set")
    for one in [] if json else told:
        say(f"{one.sink} was told" if one.told else f"{one.sink} was not told: {one.error}")
    if not all(one.told for one in told):
        raise typer.Exit(1)
