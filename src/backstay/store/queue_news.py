"""Who hears of messages: receivers that wait for one, and whoever reads the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from backstay.messaging.queue import Caller
from backstay.observe import MESSAGE_DEAD, emit
from backstay.store.base import Changes, Listener

#: So much that is due is dealt with on the way of one receive; the next goes on with it.
SWEPT_MAX: Final = 1_000
#: So many ids whose time is over are forgotten with each batch that remembers some.
FORGOTTEN_MAX: Final = 1_000


class Swept(msgspec.Struct):
    """What was set aside on the way of a receive."""

    used_up: int = 0
    expired: int = 0


def listening(listen: Callable[[Listener], Callable[[], None]], caller: Caller) -> Callable[[], None]:
    """Have ``caller`` called when there may be something to receive; returns how to stop that."""

    def changed(changes: Changes) -> None:
        if changes.foreign:
            caller(None)
        elif changes.queues:
            caller(frozenset(changes.queues))

    return listen(changed)


def set_aside(queue: str, number: int, reason: str) -> None:
    """Tell that messages became dead letters, if any did."""
    if number:
        emit(MESSAGE_DEAD, level=logging.WARNING, queue=queue, number=number, reason=reason)
