"""Has a person's store pruned, at once and beside whoever works on it."""

from __future__ import annotations

from datetime import datetime, timedelta

from backstay.domain.audit import Act, checked_reason
from backstay.operating import this_user
from backstay.runtime.stores import StoreClock, open_store
from backstay.settings import Settings
from backstay.store.retention import Kept
from backstay.supervisor.prune import Progress, Walk, prune_by_hand


async def prune_store(
    settings: Settings, *, kept: timedelta, dry_run: bool, reason: str | None, progress: Progress
) -> tuple[datetime, dict[Kept, int]]:
    """Forget what ended longer ago than ``kept``; before when that was, and how many of each have gone.

    It is in the audit trail before anything goes. With ``dry_run`` it is only counted.
    """
    act = Act(who=this_user(), action="prune", target="store", reason=checked_reason(reason))
    store = open_store(settings)
    await store.open(must_exist=True)
    try:
        clock = StoreClock(store)
        before = clock.now() - kept
        if not dry_run:
            await store.retention.record_pruning(act, before=before, now=clock.now())
        walk = Walk(store.retention, before=before, clock=clock)
        return before, await prune_by_hand(walk, progress, dry_run=dry_run)
    finally:
        await store.close()
