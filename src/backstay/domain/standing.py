"""How queues stand: what whoever looks after them is shown."""

from __future__ import annotations

from datetime import datetime

import msgspec

from backstay.domain.message import Queue


class QueueStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A queue and how many messages are in it, counted no further than was asked for."""

    queue: Queue
    ready: int
    behind: int
    waiting: int
    locked: int
    deferred: int
    dead: int


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """Of those messages of a queue that can be received now, the ones of one priority."""

    queue: str
    priority: int
    ready: int
    # Since when the oldest of them has been there.
    oldest: datetime


class SessionStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A session of a queue, and how many of its messages are not done yet."""

    session: str
    messages: int
    locked: int
    oldest: datetime
