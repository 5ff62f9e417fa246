"""``backstay serve``: run the roles of a process until it is told to stop."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from backstay.app import App
from backstay.cli.access import StoreOption
from backstay.cli.logs import set_up_logging
from backstay.cli.render import note
from backstay.cli.target import load_app
from backstay.runtime.roles import ALL, Role, as_names, parse_roles
from backstay.runtime.stores import store_label
from backstay.settings import Settings


def serve(
    *,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="module:app",
            help="The application; without it only what is built in runs: jobs.",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    roles: Annotated[
        str | None,
        typer.Option("--roles", metavar="R,R", help=f"Some of {', '.join(Role)}; all by default."),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="H", help="Where to listen.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        str | None,
        typer.Option(
            "--port",
            metavar="P",
            help="Which port to listen on; 0 takes any that is free.",
            show_default="8080",
        ),
    ] = None,
    tls_cert: Annotated[
        str | None, typer.Option("--tls-cert", metavar="FILE", help="A certificate chain in PEM.")
    ] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Its key in PEM.")] = None,
) -> None:
    """Run an application: the HTTP interface, the scheduler with its agents, the supervisor, its jobs.

    SIGTERM or Ctrl-C stops gracefully: what is at work may end. A second one does not wait.
    """
    settings = Settings.load(
        {"store": store, "host": host, "port": port, "tls_cert": tls_cert, "tls_key": tls_key}
    )
    wanted = ALL if roles is None else parse_roles(roles.split(","))
    app = App("backstay") if target is None else load_app(target)
    set_up_logging(settings)
    _print_by_lines()

    def say_ready(address: str | None) -> None:
        where = f" on {address}" if address else ""
        note(f"backstay is running{where} as {', '.join(as_names(wanted))}; Ctrl-C stops it")
        note(f"the store is {store_label(settings)}")
        if target is None and Role.SCHEDULER in wanted:
            note("no application is named, so that only jobs are run")

    try:
        with asyncio.Runner(loop_factory=_event_loop()) as runner:
            runner.run(app.serve(settings, roles=wanted, ready=say_ready))
    except asyncio.CancelledError:
        note("stopped without waiting; what was at work is taken up again elsewhere")
        raise typer.Exit(1) from None


def _print_by_lines() -> None:
    """What steps print is seen when they print it, in a file or a journal as on a terminal."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def _event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop  # noqa: PLC0415  Not there on Windows.

    return uvloop.new_event_loop
