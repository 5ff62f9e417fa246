"""``backstay audit``: the trail of what operators did."""

from __future__ import annotations

from typing import Annotated

import typer

from backstay.cli.access import JsonOption, StoreOption, UrlOption, ask
from backstay.cli.arguments import CursorOption, LimitOption, checked_limit, key_of
from backstay.cli.render import show_page
from backstay.cli.tables import audit_table
from backstay.store.records import AuditFilter


def audit(
    *,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="T", help="Only what was done to it, as in task:o1 or agent:bank."),
    ] = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Show who did what, when, to what, and why; the newest first."""
    wanted = AuditFilter(target=target, before=key_of(cursor), limit=checked_limit(limit))
    page = ask(store, url, lambda desk: desk.audit(wanted))
    show_page(page, json=json, table=audit_table, nothing="nobody did anything")
