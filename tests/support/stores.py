"""Stores with a twist, for any database: ``database.store_as(DyingStore)``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from backstay.domain.lease import Leader, Owner
from backstay.store.base import Claimed, Report
from backstay.store.supervision import Freed, Supervision
from tests.support.databases import AnyStore


class DyingStore(AnyStore):
    """A process on this store ends like a killed one: it says nothing to anybody.

    Only the lead it gives up, so that a test need not wait for its lease.
    """

    async def retire(self, owner: Owner, *, now: datetime) -> int:
        return 0


class PatientStore(AnyStore):
    """Declares nobody dead before it is told to; then everybody but itself, whatever the lease says."""

    may_bury = False

    @property
    def supervision(self) -> Any:
        return _Patience(super().supervision, lambda: self.may_bury)


class StalledStore(AnyStore):
    """A scheduler on this store learns nothing new, and gives no sign of life, before it is ``awake``."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.awake = asyncio.Event()
        self.awake.set()

    async def beat(self, owner: Owner, *, now: datetime, report: Report | None = None) -> None:
        await self.awake.wait()
        await super().beat(owner, now=now, report=report)

    async def claim(self, owner: Owner, runs: Any, **how: Any) -> list[Claimed]:
        await self.awake.wait()
        return await super().claim(owner, runs, **how)


class _Patience:
    """A supervision in which only the burials wait."""

    def __init__(self, supervision: Supervision, may_bury: Callable[[], bool]) -> None:
        self._supervision = supervision
        self._may_bury = may_bury

    def __getattr__(self, name: str) -> Any:
        return getattr(self._supervision, name)

    async def work_waits(self, **asked: Any) -> bool:
        return self._may_bury() or await self._supervision.work_waits(**asked)

    async def bury(
        self, leader: Leader, *, lease: timedelta, now: datetime, spare: Owner | None = None
    ) -> Freed:
        if not self._may_bury():
            return Freed()
        return await self._supervision.bury(leader, lease=timedelta(0), now=now, spare=spare)
