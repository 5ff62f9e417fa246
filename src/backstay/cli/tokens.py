"""``backstay tokens``: who may ask a server for what."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from backstay.cli.access import JsonOption, StoreOption, UrlOption, ask
from backstay.cli.arguments import ReasonOption
from backstay.cli.render import note, print_json, say, show_page
from backstay.cli.tables import token_table
from backstay.clock import SystemClock
from backstay.domain.access import Role
from backstay.views import CreatedToken, Page

commands: Final = typer.Typer(
    help="Manage who may ask a server for what.", no_args_is_help=True, pretty_exceptions_enable=False
)


@commands.command("create")
def create(
    *,
    name: Annotated[
        str,
        typer.Option(
            "--name", metavar="N", help="Whom it is for; the audit trail names it.", show_default=False
        ),
    ],
    role: Annotated[
        Role,
        typer.Option(
            "--role",
            metavar="R",
            help=f"What it allows; each of them includes those before: {', '.join(Role)}.",
            show_default=False,
        ),
    ],
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Create a token and print it, this one time."""
    secret = ask(store, url, lambda desk: desk.create_token(name, role))
    if json:
        print_json(CreatedToken(secret, name, role))
        return
    say(secret)
    note(f"this is the token of {name} ({role}); keep it, it will not be shown again")


@commands.command("ls")
def ls(store: StoreOption = None, url: UrlOption = None, json: JsonOption = False) -> None:
    """List tokens, without their secrets."""
    tokens = ask(store, url, lambda desk: desk.tokens())
    show_page(
        Page(tokens),
        json=json,
        table=lambda listed: token_table(listed, now=SystemClock().now()),
        nothing="there are no tokens; `backstay tokens create` makes one",
    )


@commands.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the token.", show_default=False)],
    reason: ReasonOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Let a token open nothing any more."""
    ask(store, url, lambda desk: desk.revoke_token(name, reason=reason))
    if not json:  # The HTTP interface answers without a body.
        say(f"token {name} is revoked")
