"""What a state store keeps of alerts: that they are raised once, and whom they were told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from backstay.domain.alert import AlertKind, Delivery, NewAlert, Undelivered
from backstay.domain.lease import Leader


class Alerting(Protocol):
    """Each method is one transaction. What names a leader is refused with LeaseLost when another leads."""

    async def call(
        self, alerts: Sequence[NewAlert], *, now: datetime, leader: Leader | None = None
    ) -> list[NewAlert]:
        """Call for a person; those alerts that are new.

        While one is open, the next that tells of the same is counted there.
        """

    async def undelivered(
        self, sink: str, *, since: datetime, now: datetime, limit: int
    ) -> list[Undelivered]:
        """What ``sink`` has yet to be told and is due, the oldest first; nothing raised before ``since``."""

    async def delivered(
        self, leader: Leader, deliveries: Sequence[Delivery], *, sinks: Sequence[str], now: datetime
    ) -> None:
        """What became of telling. Of what all ``sinks`` were told nothing is due any more."""

    async def give_up(self, leader: Leader, *, since: datetime, limit: int, now: datetime) -> int:
        """Let nobody be told any more of what was raised before ``since``; the number of such alerts."""

    async def forget(self, leader: Leader, *, keep: int, limit: int, now: datetime) -> tuple[int, int]:
        """Keep so many alerts: how many are gone, and how many of those were open.

        Those go first that somebody took up, and the oldest.
        """

    async def open_alerts(self, *, counted: int) -> dict[AlertKind, int]:
        """How many are open of each kind, counted no further than ``counted`` in all."""
