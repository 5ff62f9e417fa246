"""``backstay alerts``: what a person is called for."""

from __future__ import annotations

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
from backstay.store.records import AlertFilter

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
