"""Lends a transaction to a function of the application: what every database does alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from backstay.domain.message import Action, Lock, Settlement
from backstay.domain.task import NewTask
from backstay.errors import InvalidRequest

#: So long a function may have a transaction. What it has locked, others wait for.
LENT_SECONDS: Final = 5.0

#: Writes what it likes through a connection, and says which task is to be entered.
Accept = Callable[[Any], Awaitable[NewTask]]


class FunctionRaised(Exception):
    """What a function raised that was lent a transaction. Nothing of it, or of the transaction, is left."""

    def __init__(self, error: Exception) -> None:
        super().__init__(repr(error))
        self.error = error


async def lent(function: Accept, connection: Any) -> NewTask:
    """What ``function`` gives. Raises FunctionRaised, also when it takes too long."""
    limit = asyncio.timeout(LENT_SECONDS)
    try:
        async with limit:
            return await function(connection)
    except Exception as error:
        if limit.expired() and isinstance(error, TimeoutError):
            error = TimeoutError(f"it held on to its transaction for more than {LENT_SECONDS:g} s")
        raise FunctionRaised(error) from error


def check_still_open(*, is_open: bool) -> None:
    """Raise unless the transaction is still the one that was lent."""
    if not is_open:
        raise InvalidRequest(
            "the function ended the transaction that it was given; leave commit and rollback to Backstay"
        )


def completed(lock: Lock) -> Settlement:
    return Settlement(lock=lock, action=Action.COMPLETE)
