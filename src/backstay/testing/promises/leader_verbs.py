"""What only the leader of the supervisors may do, one function a verb."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from backstay.domain.control import Control, Subject
from backstay.domain.lease import Leader
from backstay.store.supervision import Round, Supervision
from backstay.testing.clock import ManualClock
from backstay.testing.promises.holder import LEASE, MANY, NO_GRACE

Verb = Callable[[Supervision, Leader, ManualClock], Awaitable[Any]]


def a_pause(clock: ManualClock, name: str = "ship", subject: Subject = Subject.WORKFLOW) -> Control:
    reason = "recovered too often"
    return Control(subject=subject, name=name, paused=True, by="supervisor", reason=reason, at=clock.now())


async def bury(supervision: Supervision, leader: Leader, clock: ManualClock) -> object:
    return await supervision.bury(leader, lease=LEASE, now=clock.now())


async def wake(supervision: Supervision, leader: Leader, clock: ManualClock) -> object:
    return await supervision.wake(leader, now=clock.now(), limit=MANY)


async def expire_runs(supervision: Supervision, leader: Leader, clock: ManualClock) -> object:
    return await supervision.expire_runs(leader, grace=NO_GRACE, now=clock.now(), limit=MANY)


async def expire_steps(supervision: Supervision, leader: Leader, clock: ManualClock) -> object:
    return await supervision.expire_steps(leader, grace=NO_GRACE, now=clock.now(), limit=MANY)


async def hold_back(supervision: Supervision, leader: Leader, clock: ManualClock) -> object:
    return await supervision.hold_back(leader, a_pause(clock), message="too often", now=clock.now())


async def record_round(supervision: Supervision, leader: Leader, clock: ManualClock) -> None:
    await supervision.record_round(leader, Round(at=clock.now(), epoch=leader.epoch, woken=1))


SWEEPS: Final = (bury, wake, expire_runs, expire_steps)
EVERY_VERB: Final = (*SWEEPS, hold_back, record_round)
