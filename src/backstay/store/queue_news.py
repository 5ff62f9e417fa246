"""Who hears of messages: receivers that wait for one, and whoever reads the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from backstay.domain.alert import NewAlert, of_dead_letter
from backstay.domain.message import EXPIRED, TOO_MANY_DELIVERIES, MessageState, Sent
from backstay.errors import BackstayError
from backstay.messaging.queue import Caller
from backstay.observe import MESSAGE_DEAD, MESSAGE_DUPLICATE, STATUS_LOST, alert, counters, emit
from backstay.store.base import Changes, Listener
from backstay.store.rows import Row

#: So much that is due is dealt with on the way of one receive; the next goes on with it.
SWEPT_MAX: Final = 1_000
#: So many ids whose time is over are forgotten with each batch that remembers some; twice as many as it
#: remembers, if that is more.
FORGOTTEN_MAX: Final = 1_000


class Swept(msgspec.Struct):
    """What was set aside on the way of a receive, by reason, and whom that called for."""

    queue: str
    ids: dict[str, list[str]] = {}
    called: list[NewAlert] = []

    def judge(self, returned: Iterable[Row], expired: Iterable[Row], *, keeps_expired: bool) -> None:
        """From the columns of ``return_locked`` and ``expired_messages``."""
        self.ids = {
            TOO_MANY_DELIVERIES: [row[2] for row in returned if row[1] == MessageState.DEAD],
            EXPIRED: [row[2] for row in expired] if keeps_expired else [],
        }

    @property
    def calls(self) -> list[NewAlert]:
        """Who is called for if nobody is yet."""
        found = [
            of_dead_letter(self.queue, id=ids[0], reason=reason) for reason, ids in self.ids.items() if ids
        ]
        return found[:1]

    def tell(self) -> None:
        """Once that is durable."""
        for reason, ids in self.ids.items():
            set_aside(self.queue, len(ids), reason)
        called(self.called)


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
        emit(MESSAGE_DEAD, level=logging.WARNING, times=number, queue=queue, number=number, reason=reason)


def called(alerts: Iterable[NewAlert]) -> None:
    """Tell of alerts that are kept by now."""
    for one in alerts:
        alert(one.kind, target=one.target, message=one.message)


def not_sent_again(answers: Sequence[Sent | BackstayError]) -> None:
    """Count what had been sent before."""
    counters[MESSAGE_DUPLICATE] += sum(isinstance(one, Sent) and one.duplicate for one in answers)


def dropped(numbers: Mapping[str, int]) -> None:
    """Tell of statuses for which their queues had no room."""
    for queue, number in numbers.items():
        emit(
            STATUS_LOST,
            level=logging.WARNING,
            times=number,
            to=queue,
            number=number,
            error="the queue is full",
        )
