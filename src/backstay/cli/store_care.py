"""``backstay store prune | backup | check``: keep a store small, safe, and as it must be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from backstay.cli.access import JsonOption, StoreOption
from backstay.cli.render import note, print_json, say
from backstay.domain.durations import describe, duration
from backstay.messaging.logs import log_of
from backstay.runtime import open_store
from backstay.runtime.backup import back_up
from backstay.runtime.pruning import prune_store
from backstay.settings import Settings
from backstay.store.checking import Fault, check_store
from backstay.store.retention import Kept

# Somebody who looks on is told how far it has got, so often at most.
TOLD_SECONDS: Final = 1.0


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What ``store prune`` answers."""

    older_than: str
    ended_before: datetime
    dry_run: bool
    tasks: int
    alerts: int


def prune(
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Instead of the setting task_retention."),
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many could go.")] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for the audit trail.")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Forget tasks that ended long ago, and alerts taken up long ago, as the supervisor does by itself."""
    settings = Settings.load({"store": store})
    kept = settings.task_retention if older_than is None else duration(older_than, name="--older-than")
    told = _Teller()

    def progress(kind: Kept, _after: int, gone: int) -> None:
        told.now_and_then(lambda: f"{gone:,} {kind}")

    before, gone = asyncio.run(
        prune_store(settings, kept=kept, dry_run=dry_run, reason=reason, progress=progress)
    )
    done = Pruned(
        older_than=describe(kept),
        ended_before=before,
        dry_run=dry_run,
        tasks=gone[Kept.TASKS],
        alerts=gone[Kept.ALERTS],
    )
    if json:
        print_json(done)
        return
    verb = "could go" if dry_run else "are gone"
    say(f"{done.tasks:,} tasks and {done.alerts:,} alerts {verb} that ended more than {done.older_than} ago")


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; streams go beside it.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Copy a store on SQLite, with its streams, while it is in use."""
    told = _Teller()

    def progress(path: Path, done: int, all: int) -> None:
        told.now_and_then(lambda: f"{path.name}: {done:,} of {all:,} bytes")

    written = back_up(Settings.load({"store": store}), file, progress)
    if json:
        print_json(written)
        return
    say(f"the store is in {written.store}")
    if written.streams is not None:
        say(f"its streams are in {written.streams}")


def checkup(settings: Settings) -> list[Fault]:
    """Look for whatever breaks a rule, and tell how far the look has got."""
    told = _Teller()

    def progress(looked: int, last: int) -> None:
        told.now_and_then(lambda: f"looked at the tasks up to key {looked:,} of {last:,}")

    return asyncio.run(_faults(settings, progress))


def show(faults: list[Fault]) -> None:
    """What was found, for people."""
    if not faults:
        say("every rule holds")
        return
    for fault in faults:
        say(f"{fault.kind} {fault.id}: {fault.wrong}")
        say(f"  {fault.remedy}")


async def _faults(settings: Settings, progress: Callable[[int, int], None]) -> list[Fault]:
    store, log = open_store(settings), log_of(settings)
    await store.open(must_exist=True)
    try:
        await log.open(must_exist=True)
        try:
            return await check_store(store, log, progress=progress)
        finally:
            await log.close()
    finally:
        await store.close()


class _Teller:
    """Says beside the result how far something has got, not too often."""

    def __init__(self) -> None:
        self._told_at = time.monotonic()

    def now_and_then(self, text: Callable[[], str]) -> None:
        now = time.monotonic()
        if now - self._told_at >= TOLD_SECONDS:
            self._told_at = now
            note(text())
