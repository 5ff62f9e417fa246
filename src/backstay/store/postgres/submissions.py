"""A batch of submissions in one transaction: all at once, and one by one where one of them is in trouble.

Who submits an id that is part of somebody's open transaction must wait until that one has ended. It
waits beside the others, not before them: they are committed without it, and it is tried again with
the next batch, for a second.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg

from backstay.domain.status import Destination, destination
from backstay.domain.task import NewTask, first_record
from backstay.errors import BackstayError
from backstay.store.base import Changes, Submitted
from backstay.store.decisions import known_task
from backstay.store.postgres.connection import REFUSALS, Server
from backstay.store.postgres.statuses import Statuses
from backstay.store.postgres.tables import Tables

# So long a submission waits for a transaction that holds on to its id.
HELD_SECONDS: Final = 1.0

# A batch waits a moment for all ids together, less for one alone, and after this long for no other:
# what it waits for, everybody in it waits for.
TOGETHER: Final = "SET LOCAL lock_timeout = '20ms'; SAVEPOINT submissions"
_ALONE: Final = "RELEASE submissions; SET LOCAL lock_timeout = '2ms'; SAVEPOINT submissions"
_BATCH_SECONDS: Final = 0.25

Answers = list[Submitted | BackstayError]


@dataclass(slots=True, eq=False)
class Submission:
    """Tasks that are submitted together, and who waits for the answers."""

    tasks: Sequence[NewTask]
    now: datetime
    future: asyncio.Future[Answers]
    # None: it was not tried yet.
    give_up_at: float | None = None

    def answer(self, answer: Answers | BackstayError) -> None:
        if self.future.done():
            return  # The caller no longer waits.
        if isinstance(answer, BackstayError):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


def answer_all(submissions: list[Submission], error: BackstayError) -> None:
    for submission in submissions:
        submission.answer(error)


class SubmissionBatch:
    """What became of each submission, once ``write`` has been committed."""

    def __init__(self, submissions: list[Submission], server: Server, statuses: Statuses) -> None:
        self._all = submissions
        self._statuses = statuses
        self._server = server
        self._answers: list[tuple[Submission, Answers | BackstayError]] = []
        # Somebody holds on to an id of these; for those there was no time.
        self._held: list[Submission] = []
        self._untried: list[Submission] = []

    async def write(self, tables: Tables, changes: Changes) -> None:
        """Runs inside the batch's transaction, which began with ``TOGETHER``, once per attempt at it."""
        self._answers, self._held = [], []
        enough_at = time.monotonic() + _BATCH_SECONDS
        fresh = [one for one in self._all if one.give_up_at is None]
        alone = deque(one for one in self._all if one.give_up_at is not None)
        if fresh:
            alone.extendleft(reversed(await self._enter(tables, changes, fresh)))
        while alone and time.monotonic() < enough_at:
            await tables.connection.execute(_ALONE)
            await self._enter(tables, changes, [alone.popleft()])
        self._untried = [*alone]
        changes.claimable = bool(self._answers)

    async def _enter(self, tables: Tables, changes: Changes, group: list[Submission]) -> list[Submission]:
        """Enter a group; when one of several is in trouble, none is entered, and all of them come back."""
        try:
            answers = await self._entered(tables, changes, group)
        except (asyncpg.LockNotAvailableError, *REFUSALS) as error:
            await tables.connection.execute("ROLLBACK TO submissions")
            if len(group) > 1:
                return group
            if isinstance(error, asyncpg.LockNotAvailableError):
                self._held += group
            else:
                self._answers.append((group[0], self._server.translated(error)))
        else:
            self._answers += zip(group, answers, strict=True)
        return []

    async def _entered(
        self, tables: Tables, changes: Changes, submissions: list[Submission]
    ) -> list[Answers]:
        """Enter new tasks and answer for those that cannot be, or whose ids are taken."""
        every = [(task, submission.now) for submission in submissions for task in submission.tasks]
        answers = iter(await enter_tasks(tables, changes, self._statuses, every))
        return [[next(answers) for _ in one.tasks] for one in submissions]

    def settle(self) -> list[Submission]:
        """Give the answers; those come back that must be tried again."""
        for submission, answer in self._answers:
            submission.answer(answer)
        now = time.monotonic()
        # Those first for which there was no time.
        left = self._untried + self._held
        for submission in left:
            submission.give_up_at = submission.give_up_at or now + HELD_SECONDS
        for submission in self._held:
            if submission.give_up_at is not None and now >= submission.give_up_at:
                submission.answer(self._server.translated(asyncpg.LockNotAvailableError()))
        return [submission for submission in left if not submission.future.done()]


async def enter_tasks(
    tables: Tables, changes: Changes, statuses: Statuses, every: Sequence[tuple[NewTask, datetime]]
) -> Answers:
    """Enter new tasks at once, and answer for those that cannot be, or whose ids are taken.

    A task whose id was taken a moment ago may have been pruned since: then its id is free, and it is entered.
    """
    missing = await statuses.missing(tables, (task for task, _ in every))
    wanted = [(task, now) for task, now in every if _refusal(task, missing) is None]
    keys = await tables.insert_tasks(wanted)
    created: dict[str, NewTask] = {}
    for task, _ in wanted:
        if task.id in keys:
            created.setdefault(task.id, task)
    entered = {task.id: (keys[task.id], task, now) for task, now in wanted if created.get(task.id) is task}
    await statuses.tell_of_entry(tables, changes, [*entered.values()])
    others = sorted({task.id for task, _ in wanted if created.get(task.id) is not task})
    known = {task.id: task for task in await tables.tasks_by_id(others)} if others else {}
    if len(known) < len(others):
        free = [(task, now) for task, now in wanted if task.id in others and task.id not in known]
        answers = iter(await enter_tasks(tables, changes, statuses, free))
    else:
        answers = iter(())

    def answer(task: NewTask, now: datetime) -> Submitted | BackstayError:
        if (refusal := _refusal(task, missing)) is not None:
            return refusal
        if created.get(task.id) is task:
            return Submitted(first_record(keys[task.id], task, now), created=True)
        return known_task(task, known[task.id]) if task.id in known else next(answers)

    return [answer(task, now) for task, now in every]


def _refusal(task: NewTask, missing: Mapping[Destination, BackstayError]) -> BackstayError | None:
    return None if task.reply_to is None else missing.get(destination(task.reply_to))
