"""One bounded round over what nobody moves.

The sweep only ever frees: it makes a task claimable again and counts why. What the count means (try
again, rest, undo, call a person) is decided by the scheduler that claims the task next, which knows
the workflow's ``Recovery``. What has to be freed too often is held back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from backstay.clock import Clock
from backstay.domain.alert import PAUSED
from backstay.domain.control import Control
from backstay.domain.durations import describe
from backstay.domain.intensity import Excess, excesses
from backstay.domain.lease import Leader, Owner
from backstay.observe import RECOVERED, alert, emit
from backstay.settings import Settings
from backstay.store.supervision import Freed, Round, Supervision

# Rows that one statement frees; and statements of a kind in one round. What is left, the next round does.
PAGE: Final = 500
PAGES_MAX: Final = 20

# A living scheduler judges its own steps the moment their complete-by passes. Only when it has not
# done so for this long is it itself the problem.
EXPIRY_GRACE: Final = timedelta(seconds=5)

BY: Final = "supervisor"


async def sweep(
    store: Supervision, leader: Leader, *, settings: Settings, clock: Clock, spare: Owner | None
) -> Round:
    """One round under ``leader``. Raises LeaseLost as soon as another leads, or its lease has run out."""
    nothing = Round(at=clock.now(), epoch=leader.epoch)
    if not await store.work_waits(lease=settings.lease, grace=EXPIRY_GRACE, now=nothing.at, spare=spare):
        return nothing
    # The time is taken anew for each: a round that stalls in between must not act by its beginning.
    buried = await store.bury(leader, lease=settings.lease, now=clock.now(), spare=spare)
    overrun = await _runs_in_pages(
        lambda: store.expire_runs(leader, grace=EXPIRY_GRACE, now=clock.now(), limit=PAGE)
    )
    done = msgspec.structs.replace(
        nothing,
        freed=buried.runs + buried.undos,
        overrun=overrun.runs + overrun.undos,
        undos=buried.undos + overrun.undos,
        steps_expired=await _in_pages(
            lambda: store.expire_steps(leader, grace=EXPIRY_GRACE, now=clock.now(), limit=PAGE)
        ),
        woken=await _in_pages(lambda: store.wake(leader, now=clock.now(), limit=PAGE)),
    )
    if not done.recovered:
        return done
    emit(RECOVERED, freed=done.freed, overrun=done.overrun, steps_expired=done.steps_expired)
    paused = await _hold_back_excesses(store, leader, settings=settings, now=clock.now())
    return msgspec.structs.replace(done, paused=paused)


async def _in_pages(page: Callable[[], Awaitable[int]]) -> int:
    total = 0
    for _ in range(PAGES_MAX):
        found = await page()
        total += found
        if found < PAGE:
            break
    return total


async def _runs_in_pages(page: Callable[[], Awaitable[Freed]]) -> Freed:
    total = Freed()
    for _ in range(PAGES_MAX):
        found = await page()
        total = Freed(total.runs + found.runs, total.undos + found.undos)
        if found.runs + found.undos < PAGE:
            break
    return total


async def _hold_back_excesses(
    store: Supervision, leader: Leader, *, settings: Settings, now: datetime
) -> int:
    """Pause what was recovered too often; the number of workflows and agents paused."""
    recent = await store.recoveries(since=now - settings.recoveries_within)
    found = excesses(((one.workflow, one.agent, one.number) for one in recent), most=settings.recoveries_max)
    return sum([await _hold_back(store, leader, one, settings=settings, now=now) for one in found])


async def _hold_back(
    store: Supervision, leader: Leader, excess: Excess, *, settings: Settings, now: datetime
) -> bool:
    reason = f"{excess.number} recoveries within {describe(settings.recoveries_within)}"
    control = Control(subject=excess.subject, name=excess.name, paused=True, by=BY, reason=reason, at=now)
    message = f"{excess.subject} {excess.name} is paused after {reason}; find out why, then resume it"
    paused = await store.hold_back(leader, control, message=message, now=now)
    if paused:
        alert(PAUSED[excess.subject], **{str(excess.subject): excess.name}, reason=reason)
    return paused
