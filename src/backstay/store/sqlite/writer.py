"""The one thread that writes.

Everything that changes the store is handed in here and gathers while a commit is under way; the
next commit then carries as much of it as the inbox gives. A caller hears of its own part only after
the commit that holds it, on the event loop, one wake-up for the whole batch.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from backstay.domain.lease import Owner
from backstay.domain.task import NewTask
from backstay.errors import BackstayError, Closed, LeaseLost, StoreUnavailable
from backstay.observe import commit_seconds, log
from backstay.sql.sqlite.connection import REFUSALS, translated
from backstay.sql.sqlite.others import Others
from backstay.store.base import (
    Changes,
    Claimed,
    Listener,
    Posted,
    Runnable,
    Settle,
    Submitted,
    Transition,
)
from backstay.store.commit import settle_all
from backstay.store.sqlite.batch import claim_tasks, enter_all, write_plainly, write_transitions
from backstay.store.sqlite.claims import Claim
from backstay.store.sqlite.inbox import Answers, Batch, Call, Entry, Inbox, Operation, Outcome, Submission
from backstay.store.sqlite.tables import Tables

# While the store cannot write, transitions are kept and tried again after this pause.
STALL_SECONDS: Final = 0.2

_NOTHING: Final = Changes()

#: Called around each commit with "before" or "after"; tests end the process there.
Boundary = Callable[[str], None]


class Writer:
    """Owns the writing connection and its thread."""

    def __init__(self, tables: Tables, path: Path, *, gate: threading.Lock, boundary: Boundary) -> None:
        self._tables = tables
        self._connection = tables.connection
        self._path = path
        self._gate = gate
        self._boundary = boundary
        self._inbox = Inbox()
        self._kept: list[Posted] = []
        self._wake = threading.Event()
        self._asleep = False
        self._closing = False
        self._others = Others(self._connection)
        self._loop = asyncio.get_running_loop()
        self._listeners: list[Listener] = []
        self._thread = threading.Thread(target=self._work, name=f"backstay-writer-{path.name}", daemon=True)
        self._thread.start()

    # On the event loop

    def post(self, transition: Transition, settle: Settle) -> None:
        if self._closing:
            self._check_open()
        self._inbox.add((transition, settle))
        if self._asleep:
            self._call()

    async def call(self, operation: Operation) -> Any:
        """Run ``operation`` within the next commit; its result, or its error, comes back from here."""
        self._check_open()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._hand_in(Call(operation, future))
        return await future

    async def enter(self, tasks: Sequence[NewTask], *, now: datetime) -> Answers:
        """Enter tasks with the next commit; those whose ids are taken are answered for."""
        self._check_open()
        future: asyncio.Future[Answers] = self._loop.create_future()
        self._hand_in(Submission(tasks, now, future))
        return await future

    async def claim(
        self,
        owner: Owner,
        runs: Sequence[Runnable],
        *,
        limit: int,
        now: datetime,
        patience: timedelta,
    ) -> list[Claimed]:
        """Claim with the next commit, or with one that brings something to claim while patience lasts."""
        self._check_open()
        future: asyncio.Future[list[Claimed]] = self._loop.create_future()
        self._hand_in(Claim(owner, runs, limit, now, patience, future))
        return await future

    def attend(self) -> None:
        """Look more often, for a while, whether another process wrote: it is about to answer us."""
        self._others.expect()

    def listen(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, changes: Changes) -> None:
        for listener in tuple(self._listeners):
            listener(changes)

    async def close(self) -> None:
        """Write what was handed in, then end the thread."""
        self._closing = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join)

    def _check_open(self) -> None:
        if self._closing:
            raise Closed(f"{self._path.name} is closed")

    def _hand_in(self, entry: Entry) -> None:
        self._inbox.add(entry)
        if self._asleep:
            self._call()

    def _call(self) -> None:
        self._asleep = False
        self._wake.set()

    # In the thread

    def _work(self) -> None:
        while True:
            self._wake.clear()
            # Said before we look: what is handed in after that look finds us asleep, and calls.
            self._asleep = True
            if not (self._inbox or self._closing):
                # We wake up by ourselves as well: there may be room again, or another process wrote.
                self._wake.wait(STALL_SECONDS if self._kept else self._others.poll_seconds)
            self._asleep = False
            if self._inbox or self._kept:
                kept, self._kept = self._kept, []
                self._write(self._inbox.take(kept))
            self._look_around()
            self._send_home(self._inbox.claims.take_over())
            if self._closing and not self._inbox:
                break
        self._send_home(self._inbox.claims.take_all())
        self._connection.close()
        self._report(self._give_up)

    def _write(self, batch: Batch) -> None:
        changes = Changes(settled=[], touched=[])
        try:
            with self._gate:
                outcome = self._transaction(batch, changes)
        except sqlite3.Error as error:
            self._abandon()
            self._kept = batch.posted
            failure = translated(error, self._path)
            self._report(lambda: _answer_all(batch, failure))
            return
        except Exception as error:  # noqa: BLE001
            # A mistake of ours in one batch must not end the thread that all others depend on.
            self._abandon()
            log.exception("a batch could not be written")
            failure = StoreUnavailable(f"{self._path.name}: {error!r}")
            outcome = Outcome([failure] * len(batch.posted), [failure] * len(batch.waiting), failure)
        if batch.claim is not None and self._inbox.claims.goes_on(batch.claim, outcome.claimed):
            batch.claim = None  # It is not answered yet.
        if changes.claimable:
            self._inbox.claims.stir()
        self._report(lambda: self._settle(batch, outcome, changes))

    def _transaction(self, batch: Batch, changes: Changes) -> Outcome:
        plainly, began = None, time.monotonic()
        if not batch.calls:
            self._boundary("before")
            plainly = self._write_plainly(batch, changes)
            if plainly is not None:  # One statement, and with that a transaction.
                commit_seconds.add(time.monotonic() - began)
                self._boundary("after")
                return plainly
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        if batch.calls:
            plainly = self._write_plainly(batch, changes)
        outcome = plainly or self._write_with_care(batch, changes)
        outcome.answers += [self._run(call.operation, changes) for call in batch.calls]
        self._boundary("before")
        connection.execute("COMMIT")
        commit_seconds.add(time.monotonic() - began)
        self._boundary("after")
        return outcome

    def _write_plainly(self, batch: Batch, changes: Changes) -> Outcome | None:
        """Write all that is posted, submitted and claimed as one statement; ``None`` if that cannot be."""
        claim = batch.claim
        if not (batch.posted or batch.submissions or claim):
            return Outcome([], [])
        entering = _entering(batch.submissions)
        if not write_plainly(self._tables, batch.posted, entering, claim, changes):
            return None
        outcome = Outcome([None] * len(batch.posted), [])
        try:
            outcome.answers = _shared_out(self._tables.entered(entering), batch.submissions)
            outcome.claimed = None if claim is None else self._claimed_by(claim)
        except sqlite3.Error as error:
            # They are written, and with them the transitions: only their keys are not known.
            outcome.answers = [translated(error, self._path)] * len(batch.submissions)
            outcome.claimed = translated(error, self._path)
        # What was entered and is not claimed yet waits for somebody.
        taken = len(outcome.claimed) if isinstance(outcome.claimed, list) else 0
        changes.claimable = changes.claimable or len(entering) > taken
        return outcome

    def _claimed_by(self, claim: Claim) -> list[Claimed] | BackstayError:
        try:
            return self._tables.claimed(claim.owner)
        except LeaseLost as error:
            return error

    def _write_with_care(self, batch: Batch, changes: Changes) -> Outcome:
        refusals = write_transitions(self._tables, batch.posted, changes) if batch.posted else []
        entered = self._enter(batch.submissions, changes) if batch.submissions else []
        claim = batch.claim
        if claim is None:
            return Outcome(refusals, entered)
        claim_tasks(self._tables, claim)
        return Outcome(refusals, entered, self._claimed_by(claim))

    def _enter(self, submissions: list[Submission], changes: Changes) -> list[Any]:
        """All at once; one by one when an id is taken, or something is wrong with one of them."""
        changes.claimable = True
        if len(submissions) > 1:
            entered = self._run(lambda tables, _: enter_all(tables, _entering(submissions)), changes)
            if not isinstance(entered, Exception):
                return _shared_out(entered, submissions)
        return [self._run(one.enter, changes) for one in submissions]

    def _run(self, operation: Operation, changes: Changes) -> Any:
        """One operation, undone alone when it refuses; a failure of the database itself fails the batch."""
        connection = self._connection
        connection.execute("SAVEPOINT operation")
        try:
            answer = operation(self._tables, changes)
        except sqlite3.Error as error:
            if not isinstance(error, REFUSALS):
                raise
            connection.execute("ROLLBACK TO operation")
            answer = translated(error, self._path)
        except Exception as error:  # noqa: BLE001  One caller's mistake must not end the thread of all.
            connection.execute("ROLLBACK TO operation")
            answer = error
        connection.execute("RELEASE operation")
        return answer

    def _look_around(self) -> None:
        """Tell listeners when another process wrote."""
        if self._others.wrote():
            self._inbox.claims.stir()
            self._report(lambda: self.tell(Changes(settled=[], touched=[], foreign=True)))

    def _abandon(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _report(self, report: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(report)
        except RuntimeError:
            # The event loop is gone, and with it everybody who waited. What was committed stays.
            self._closing = True

    def _give_up(self) -> None:
        """Nobody writes any more what could not be written until now."""
        for _, settle in self._kept:
            settle(Closed(f"{self._path.name} was closed before this could be written"))

    def _send_home(self, claims: list[Claim]) -> None:
        """There was nothing for them."""
        for claim in claims:
            self._report(partial(_answer, claim, []))

    def _settle(self, batch: Batch, outcome: Outcome, changes: Changes) -> None:
        settle_all(zip(batch.posted, outcome.refusals, strict=True))
        for one, answer in zip(batch.waiting, outcome.answers, strict=True):
            _answer(one, answer)
        if batch.claim is not None:
            _answer(batch.claim, outcome.claimed)
        if changes != _NOTHING:
            self.tell(changes)


def _entering(submissions: list[Submission]) -> list[tuple[NewTask, datetime]]:
    return [(task, one.now) for one in submissions for task in one.tasks]


def _shared_out(entered: list[Submitted], submissions: list[Submission]) -> list[Any]:
    """The answer to each of the submissions, whose tasks were entered in their order."""
    answers = iter(entered)
    return [[*islice(answers, len(one.tasks))] for one in submissions]


def _answer_all(batch: Batch, failure: BackstayError) -> None:
    for one in batch.waiting:
        _answer(one, failure)
    if batch.claim is not None:
        _answer(batch.claim, failure)


def _answer(one: Submission | Call | Claim, answer: Any) -> None:
    if one.future.done():
        return  # The caller no longer waits.
    if isinstance(answer, Exception):
        one.future.set_exception(answer)
    else:
        one.future.set_result(answer)
