"""Ids of messages whose time is over."""

from __future__ import annotations

from datetime import datetime

from backstay.store.base import Changes
from backstay.store.postgres.messages import Messages
from backstay.store.postgres.session import Session
from backstay.store.postgres.tables import Tables


async def forget_ids(session: Session, messages: Messages, *, now: datetime | None) -> None:
    """If it is time; in a transaction of its own, so that who sends holds nothing locked meanwhile."""
    limit = messages.to_forget()
    if not limit:
        return

    async def operation(tables: Tables, _changes: Changes) -> None:
        await tables.run("forget_ids", now=now, limit=limit)

    await session.write(operation)
