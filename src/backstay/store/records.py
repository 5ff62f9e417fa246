"""What a state store keeps for operators: controls, alerts, the audit trail, tokens, idempotency keys."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from backstay.domain.access import Token
from backstay.domain.alert import Alert
from backstay.domain.audit import Act, Entry
from backstay.domain.control import Control, Subject

#: From the control in force, or ``None``, to the one that is to be.
Regulate = Callable[[Control | None], Control]


class AlertFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which alerts to list: newest first, below ``before`` (the id of the last one seen)."""

    open_only: bool = False
    before: int | None = None
    limit: int = 100


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines of the trail to list: newest first, below ``before`` (the id of the last one seen)."""

    target: str | None = None
    before: int | None = None
    limit: int = 100


class TaskNumber(msgspec.Struct, frozen=True):
    """How many tasks are in a state, and since when; "expired" are processing past their complete-by."""

    state: str
    number: int
    oldest: datetime | None


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What an idempotency key was first used for."""

    digest: str
    task_id: str


class Records(Protocol):
    """Each method is one transaction; what an operator does is in the audit trail once it is done."""

    # Controls

    async def controls(self) -> list[Control]:
        """Everything that is held back now."""

    async def regulate(
        self, subject: Subject, name: str, change: Regulate, act: Act, *, now: datetime
    ) -> Control:
        """Hold back a workflow or an agent, or let it go on; ``change`` decides on what is in force.

        Letting an agent go on wakes the tasks that were parked because of it. Ending a pause forgets what
        had to be recovered before.
        """

    async def call_for(self, agent: str, *, now: datetime) -> None:
        """Have the tasks looked at again that were parked because of an agent.

        Asked by a process that lets its steps begin again: some may have parked after it was let go on, and
        before that process had heard of it.
        """

    # Numbers

    async def task_numbers(self, *, counted: int, now: datetime) -> list[TaskNumber]:
        """How many tasks there are in each state, counted no further than ``counted``."""

    # Alerts and the trail

    async def alerts(self, wanted: AlertFilter) -> list[Alert]: ...

    async def acknowledge(self, alert_id: int, act: Act, *, now: datetime) -> Alert:
        """Somebody takes it up. The first who does stays named. Raises UnknownAlert."""

    async def audit(self, wanted: AuditFilter) -> list[Entry]: ...

    # Tokens

    async def tokens(self) -> list[Token]:
        """Every token that was ever created, by name; revoked ones as well."""

    async def add_token(self, token: Token, act: Act, *, now: datetime) -> None:
        """Raises Conflict when the name is taken, InvalidRequest when there are TOKENS_MAX."""

    async def revoke_token(self, name: str, act: Act, *, now: datetime) -> Token:
        """Raises UnknownToken. A token that is revoked already stays as it is."""

    # Idempotency keys

    async def remember(self, key: str, meant: Remembered, *, keep: timedelta, now: datetime) -> Remembered:
        """What ``key`` stands for: what it was first used for within ``keep``, else what is ``meant`` now."""

    async def forget(self, key: str, meant: Remembered) -> None:
        """Let ``key`` be used anew, if it still stands for what is ``meant``."""
