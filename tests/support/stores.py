"""Stores with a twist, for any database: ``database.store_as(DyingStore)``."""

from __future__ import annotations

from datetime import datetime, timedelta

from backstay.domain.lease import Owner
from tests.support.databases import AnyStore


class DyingStore(AnyStore):
    """A process on this store ends like a killed one: it says nothing to anybody."""

    async def retire(self, owner: Owner, *, now: datetime) -> int:
        return 0


class PatientStore(AnyStore):
    """Declares nobody dead before it is told to; then everybody but itself, whatever the lease says."""

    may_bury = False

    async def bury(self, *, lease: timedelta, now: datetime, spare: Owner | None = None) -> int:
        return await super().bury(lease=timedelta(0), now=now, spare=spare) if self.may_bury else 0
