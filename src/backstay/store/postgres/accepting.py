"""A message, what a function writes for it, and the task that it asks for: one transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import asyncpg

from backstay.domain.message import Lock
from backstay.store.accepting import LENT_SECONDS, Accept, FunctionRaised, check_still_open, completed, lent
from backstay.store.base import Changes, Submitted
from backstay.store.postgres.callers import Callers
from backstay.store.postgres.lane import SETTINGS
from backstay.store.postgres.messages import Messages
from backstay.store.postgres.session import Session
from backstay.store.postgres.tables import Tables

# What the function does is planned and waits as the database has it; a process that was stopped in the
# middle must not hold what it locked for long.
_LENDING: Final = (
    "SET LOCAL idle_in_transaction_session_timeout ="
    f" '{2 * LENT_SECONDS:.0f}s'; SET LOCAL lock_timeout = '{LENT_SECONDS:.0f}s'"
)


class Accepting:
    """Lends transactions to functions, a few at a time."""

    def __init__(self, session: Callable[[], Session], callers: Callers, messages: Messages) -> None:
        self._session = session
        self._callers = callers
        self._messages = messages

    async def accept(self, lock: Lock, function: Accept, *, now: datetime) -> Submitted:
        """See ``Store.accept``."""

        async def operation(tables: Tables, changes: Changes) -> Submitted:
            connection = tables.connection
            await connection.execute(_LENDING)
            task = await _lent(function, connection)
            check_still_open(is_open=connection.is_in_transaction())
            submitted = await self._callers.submit_within(connection, task, now=now)
            await connection.execute(SETTINGS)
            verdicts = await self._messages.settle(tables, changes, [completed(lock)], now)
            [lost] = verdicts.answers()
            if lost is not None:
                raise lost
            return submitted

        return await self._session().lend(operation)


async def _lent(function: Accept, connection: asyncpg.Connection) -> Any:
    try:
        return await lent(function, connection)
    except FunctionRaised as raised:
        if connection.is_closed():  # Nobody's mistake: it is tried again on another one.
            raise ConnectionError(str(raised)) from raised
        raise
