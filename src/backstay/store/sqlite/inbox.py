"""What is handed to the writer, and how much of it goes into one commit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from backstay.domain.task import NewTask
from backstay.errors import BackstayError
from backstay.store.base import Changes, Claimed, Posted, Submitted
from backstay.store.sqlite.claims import Claim, OpenClaims
from backstay.store.sqlite.statuses import enter
from backstay.store.sqlite.tables import Tables

BATCH_MAX: Final = 5_000

# Fewer transitions than this are not divided between two commits.
DIVIDED_FROM: Final = 64

Operation = Callable[[Tables, Changes], Any]
Answers = list[Submitted | BackstayError]


@dataclass(slots=True)
class Call:
    operation: Operation
    future: asyncio.Future[Any]


@dataclass(slots=True)
class Submission:
    tasks: Sequence[NewTask]
    now: datetime
    future: asyncio.Future[Any]

    def enter(self, tables: Tables, changes: Changes) -> Answers:
        return [enter(tables, changes, task, self.now) for task in self.tasks]


Entry = Posted | Submission | Call | Claim


@dataclass(slots=True)
class Batch:
    """What goes into one transaction."""

    posted: list[Posted]
    submissions: list[Submission]
    calls: list[Call]
    claim: Claim | None = None

    @property
    def waiting(self) -> list[Submission | Call]:
        return [*self.submissions, *self.calls]


@dataclass(slots=True)
class Outcome:
    """Why each transition was refused, if it was, and the answer to each who waits for one."""

    refusals: Sequence[BackstayError | None]
    answers: list[Any]
    claimed: list[Claimed] | BackstayError | None = None


class Inbox:
    """Filled on the event loop, emptied by the writer's thread."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self.claims = OpenClaims()
        self._moved_last = 0
        #: Puts one more in.
        self.add = self._entries.append

    def __bool__(self) -> bool:
        """Whether there is something to write, or to claim."""
        return bool(self._entries or self.claims)

    def take(self, kept: list[Posted]) -> Batch:
        """What goes into the next commit, with what could not be written before: one half of what moves.

        The other half is the tasks whose last move has just been committed, and whose next one the event
        loop works out meanwhile. Were all in one commit, event loop and writer would work in turns.
        """
        entries = self._entries
        batch = Batch(kept, [], [])
        share = max(DIVIDED_FROM, (len(entries) + self._moved_last) // 2)
        for _ in range(min(len(entries), BATCH_MAX)):
            entry = entries.popleft()
            if isinstance(entry, tuple):
                batch.posted.append(entry)
                if len(batch.posted) >= share:
                    break
            elif isinstance(entry, Call):
                batch.calls.append(entry)
            elif isinstance(entry, Claim):
                self.claims.add(entry)
            else:
                batch.submissions.append(entry)
        if batch.submissions:
            self.claims.stir()  # What is entered can be claimed in the same breath.
        batch.claim = self.claims.next()
        self._moved_last = len(batch.posted)
        return batch
