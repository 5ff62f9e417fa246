"""The demo as a command: where its files are, what it prints, how it exits."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from rich.console import Console

from drone_delivery.demo.course import DemoFailed, run
from drone_delivery.demo.plan import Plan
from drone_delivery.demo.reconcile import Report
from drone_delivery.demo.screen import screen

__all__ = ["DemoFailed", "show"]

OK: Final = 0
FAILED: Final = 1
INTERRUPTED: Final = 130

_SQLITE: Final = "sqlite:///"

_EXPLAINED: Final = """
By the books of the services; what customers with a suspended account asked for, and what is too
far for a drone, was undone.
"""


def show(
    *,
    rate: int,
    seconds: float | None,
    kill_every_seconds: float | None,
    port: int,
    store: str | None,
    as_json: bool,
) -> int:
    """Run the demo and print what the services' own books say; the exit code: 0 when all reconciles.

    Raises DemoFailed when it could not be run to its end.
    """
    if store is not None and ":memory:" in store:
        raise DemoFailed("several processes cannot share a store in memory; give a file with --store")
    own = None if _is_file(store) else Path(tempfile.mkdtemp(prefix="backstay-demo-"))
    folder = own or _beside(str(store))
    plan = Plan(
        rate=rate,
        seconds=seconds,
        kill_every_seconds=kill_every_seconds,
        port=port,
        store=store or f"{_SQLITE}{folder / 'backstay.db'}",
        folder=folder,
    )
    code = FAILED
    try:
        code = _shown(plan, as_json=as_json)
    finally:
        if code == FAILED:
            _tell_where(folder)
        elif own is not None:
            shutil.rmtree(own, ignore_errors=True)
    return code


def _is_file(store: str | None) -> bool:
    return store is not None and store.startswith(_SQLITE)


def _beside(store: str) -> Path:
    """Where the services' files are when the store is a file that stays: they stay with it."""
    folder = Path(store.removeprefix(_SQLITE)).with_suffix(".services").absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoFailed(f"the services' files cannot be kept in {folder}: {error.strerror}") from error
    return folder


def _shown(plan: Plan, *, as_json: bool) -> int:
    # Beside JSON, people may still watch.
    console = Console(stderr=as_json)
    try:
        with screen(console) as shown:
            report = asyncio.run(run(plan, shown, Random()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped at once; nothing was reconciled", file=sys.stderr)
        return INTERRUPTED
    _print(report, as_json=as_json)
    if report.reconciled:
        return OK
    for difference in report.differences:
        print(difference, file=sys.stderr)
    return FAILED


def _tell_where(folder: Path) -> None:
    """Where something went wrong the files are worth a look, if it came so far that there are any."""
    with suppress(OSError):
        folder.rmdir()
        return
    print(f"the files of all services and the output of all processes: {folder}", file=sys.stderr)


def _print(report: Report, *, as_json: bool) -> None:
    print(json.dumps(report.as_dict()) if as_json else "\n".join([_EXPLAINED, *report.lines()]))
