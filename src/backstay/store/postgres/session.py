"""What a process has open on one store: its lanes, its group commits, its ear.

transitions   group commit        ─┐
submissions   group commit         ├─ a lane each: what holds up one does not hold up another
heartbeat                          │
all else      a few lanes          │
functions     a few lanes         ─┘  of the application, which are lent transactions
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from backstay.domain.task import NewTask
from backstay.errors import BackstayError, Conflict
from backstay.store.base import Listener, Posted, Settle, Transition
from backstay.store.commit import settle_all
from backstay.store.postgres.batch import Batch
from backstay.store.postgres.committer import Committer
from backstay.store.postgres.connection import Server
from backstay.store.postgres.lane import (
    FOREVER,
    GOODBYE_SECONDS,
    PATIENCE_SECONDS,
    Boundary,
    Lane,
    Lanes,
    LendingLane,
    Operation,
)
from backstay.store.postgres.news import News
from backstay.store.postgres.settling import Settling
from backstay.store.postgres.statuses import Statuses
from backstay.store.postgres.submissions import TOGETHER, Answers, Submission, SubmissionBatch, answer_all
from backstay.store.postgres.tables import Queries, Tables

# So many functions of the application have a transaction at a time; each has a connection.
LENDING: Final = 8

# So long a store that is being closed tries to write what was handed in.
CLOSE_SECONDS: Final = 5.0

Answer = TypeVar("Answer")


class Session:
    """From opening to closing. Whatever the process says to the database, it says through here."""

    def __init__(
        self,
        server: Server,
        queries: Queries,
        *,
        channel: str,
        connections: int,
        inline_bytes_max: int,
        boundary: Boundary | None,
        statuses: Statuses,
    ) -> None:
        self._server = server
        self._statuses = statuses
        self._queries = queries
        self._channel = channel
        self._inline_bytes_max = inline_bytes_max
        self._boundary = boundary
        self._id = uuid.uuid4().hex
        self._transitions_lane = self._lane("transitions")
        self._submissions_lane = self._lane("submissions", first=TOGETHER)
        self._heartbeat_lane = self._lane("heartbeat")
        self._lanes = Lanes([self._lane(f"lane-{number}") for number in range(connections)])
        self._lending = Lanes([self._lane(f"lent-{number}", LendingLane) for number in range(LENDING)])
        self._transitions = Committer(
            self._commit_transitions, give_up=_refuse_all, name="backstay-transitions"
        )
        self._submissions = Committer(
            self._commit_submissions, give_up=answer_all, name="backstay-submissions"
        )
        self._news = News(server, session=self._id, channel=channel, send=self._notify)
        self._settling = Settling(self._news.tell)
        self._listening = asyncio.create_task(self._news.run(), name="backstay-news")

    def listen(self, listener: Listener) -> Callable[[], None]:
        return self._news.listen(listener)

    async def write(self, operation: Operation[Answer], *, patience: float = PATIENCE_SECONDS) -> Answer:
        """What ``operation`` gave, once its transaction is durable."""
        async with self._lanes.one() as lane:
            return await self._transact(lane, operation, patience)

    async def lend(self, operation: Operation[Answer]) -> Answer:
        """The same for what holds on to its transaction longer than we do."""
        async with self._lending.one() as lane:
            return await self._transact(lane, operation, PATIENCE_SECONDS)

    async def beat(self, operation: Operation[None]) -> None:
        """The same on a lane of its own: whatever holds up the others must not cost the lease."""
        await self._transact(self._heartbeat_lane, operation, PATIENCE_SECONDS)

    async def read(self, look: Callable[[Tables], Awaitable[Answer]]) -> Answer:
        async with self._lanes.one() as lane:
            return await lane.look(look)

    def post(self, transition: Transition, settle: Settle) -> None:
        """Have a transition written with the next commit."""
        self._transitions.add((transition, settle))

    async def quiet(self) -> None:
        """Come back once every transition that was posted has been answered, or patience is at its end."""
        await self._transitions.quiet(within=PATIENCE_SECONDS)
        await self._settling.done()

    async def submit(self, tasks: Sequence[NewTask], *, now: datetime) -> Answers:
        """Have tasks entered with the next commit."""
        future: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        self._submissions.add(Submission(tasks, now, future))
        return await future

    async def close(self) -> None:
        """Write what was handed in, as far as that is possible in time, and let go of everything."""
        self._listening.cancel()
        await asyncio.wait([self._listening])
        await asyncio.gather(
            self._submissions.close(within=CLOSE_SECONDS), self._transitions.close(within=CLOSE_SECONDS)
        )
        await self._settling.done()
        own = [self._transitions_lane, self._submissions_lane, self._heartbeat_lane]
        lanes = [*own, *self._lanes.all, *self._lending.all]
        await self._forget(lanes)
        await asyncio.gather(*(lane.close() for lane in lanes))

    # Group commit

    async def _commit_transitions(self, posted: list[Posted]) -> list[Posted]:
        """Write transitions; those come back that another transaction stands in the way of."""
        batch = Batch(posted, self._statuses)
        lane = self._transitions_lane
        try:
            _, changes = await lane.transact(batch.write, patience=FOREVER)
        except Conflict:
            # One of them breaks a rule of the schema. The others must not suffer.
            batch.in_parts = True
            _, changes = await lane.transact(batch.write, patience=FOREVER)
        self._settling.add(batch.judged, changes)
        return batch.left

    async def _commit_submissions(self, submissions: list[Submission]) -> list[Submission]:
        """Enter tasks; those come back whose ids another transaction holds on to."""
        batch = SubmissionBatch(submissions, self._server, self._statuses)
        try:
            _, changes = await self._submissions_lane.transact(batch.write)
        except BackstayError as error:
            answer_all(submissions, error)
            return []
        left = batch.settle()
        self._news.tell(changes)
        return left

    # Underneath

    async def _transact(self, lane: Lane, operation: Operation[Answer], patience: float) -> Answer:
        answer, changes = await lane.transact(operation, patience=patience)
        self._news.tell(changes)
        return answer

    async def _notify(self, notice: str) -> None:
        await self.read(lambda tables: tables.run("notify", channel=self._channel, notices=[notice]))

    async def _forget(self, lanes: list[Lane]) -> None:
        """What our lanes last wrote is of no interest once we are gone."""
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self.read(lambda tables: tables.run("forget_writers", ids=[one.id for one in lanes]))
        except (TimeoutError, BackstayError):
            return  # The store is away. Somebody else removes them in a week.

    def _lane(self, name: str, kind: type[Lane] = Lane, *, first: str = "") -> Lane:
        return kind(
            f"{self._id}/{name}",
            self._server,
            self._queries,
            channel=self._channel,
            inline_bytes_max=self._inline_bytes_max,
            boundary=self._boundary,
            first=first,
        )


def _refuse_all(posted: list[Posted], error: BackstayError) -> None:
    settle_all([(one, error) for one in posted])
