"""The asyncio tasks in which steps run.

A task of its own for every step would cost more than most steps do until they first wait. So the tasks
are a crew: one of them works off the line, each piece of work in a context of its own. When a piece has
to wait, its member waits with it, and another takes over the line.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any, Final, Protocol

# So many members are kept for what comes next; the others leave when their work is done.
RESTING_MAX: Final = 1_000

# So many are called at once to a line that was left by all, at most: where one piece has to wait, the next
# ones mostly have to as well, and a turn of the event loop for each of them would cost more than a call.
CALLED_MAX: Final = 128


class Work(Protocol):
    """Something to be run by a member of the crew."""

    @property
    def context(self) -> Context: ...

    def begin(self, member: asyncio.Task[None]) -> Coroutine[Any, Any, None] | None:
        """Do it as far as that goes without waiting; what is left to be awaited, if anything is.

        To stop it, cancel ``member``.
        """

    def waits(self) -> None:
        """It has to wait, for the first time."""

    def stopped(self) -> None:
        """Its member was cancelled, and it has unwound."""


class Crew:
    """Those at work, and those who rest until there is some."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.line: deque[Work] = deque()
        # How many members work off the line, or have been called to.
        self._on_line = 0
        # How many are called when the line was left by all: more each time, until one was called in vain.
        self._called_at_once = 1
        self._resting: list[asyncio.Future[bool]] = []
        self._members: set[asyncio.Task[None]] = set()
        self._dismissed = False

    def put(self, work: Work) -> None:
        """Have ``work`` begun from the event loop, in its turn."""
        self.line.append(work)
        if not self._on_line:
            self._call()

    def dismiss(self) -> None:
        """Send home who rests; those at work go when it is done."""
        self._dismissed = True
        for called in self._resting:
            called.set_result(False)
        self._resting.clear()

    def _call(self) -> None:
        """Have one more work off the line."""
        self._on_line += 1
        if self._resting:
            self._resting.pop().set_result(True)
            return
        # In an empty context: whoever put the work may be anybody.
        member = self._loop.create_task(_Member(self).serve(), name="backstay-steps", context=Context())
        self._members.add(member)
        member.add_done_callback(self._members.discard)

    # For its members

    def take_over(self) -> bool:
        """Whether the line is the asking member's from now on: nobody else works it off."""
        if self._on_line:
            return False
        self._on_line = 1
        return True

    def leave_line(self) -> None:
        """A member that worked off the line does not go on."""
        self._on_line -= 1
        if self.line and not self._on_line:
            self._called_at_once = min(2 * self._called_at_once, CALLED_MAX)
            for _ in range(min(len(self.line), self._called_at_once)):
                self._call()

    def called_in_vain(self) -> None:
        """Others have done it all: not everything has to wait."""
        self._called_at_once = 1

    def rest(self) -> asyncio.Future[bool] | None:
        """What says ``True`` to call the member, ``False`` to send it home; ``None``: it may go at once."""
        if self._dismissed or len(self._resting) >= RESTING_MAX:
            return None
        called: asyncio.Future[bool] = self._loop.create_future()
        self._resting.append(called)
        return called

    def no_longer_rests(self, called: asyncio.Future[bool]) -> None:
        self._resting.remove(called)


class _Member:
    """One asyncio task of the crew."""

    __slots__ = ("_crew", "_on_line")

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._on_line = True

    async def serve(self) -> None:
        """Work off the line, rest, and again, until cancelled or sent home."""
        task = asyncio.current_task()
        assert task is not None
        try:
            while await self._work_off(task):
                self._leave_line()
                if not await self._rest():
                    return
        finally:
            self._leave_line()

    async def _work_off(self, task: asyncio.Task[None]) -> bool:
        """Run what is in line. Whether this member may go on: one that was cancelled has had its day."""
        crew = self._crew
        while crew.line:
            work = crew.line.popleft()
            try:
                rest = work.begin(task)
                if rest is not None:
                    await self._see_through(work, rest)
            except asyncio.CancelledError:
                work.stopped()
                return False
            if task.cancelling():
                return False
            if not self._on_line:
                self._on_line = crew.take_over()
                if not self._on_line:
                    return True
        return True

    async def _see_through(self, work: Work, rest: Coroutine[Any, Any, None]) -> None:
        """Wait with ``work``, while another takes over the line."""
        context = work.context
        try:
            awaited = context.run(rest.send, None)
        except StopIteration:
            return  # It is done, and never had to wait.
        work.waits()
        self._leave_line()
        await self._alone(rest, context, awaited)

    @staticmethod
    @types.coroutine
    def _alone(
        coroutine: Coroutine[Any, Any, None], context: Context, awaited: Any
    ) -> Generator[Any, Any, None]:
        """Await the rest of ``coroutine`` in ``context``: what it sets there, the next piece does not see."""
        step: Any
        while True:
            try:
                value = yield awaited
                step = coroutine.send
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001  It is the work's, whatever it is.
                step, value = coroutine.throw, error
            try:
                awaited = context.run(step, value)
            except StopIteration:
                return

    def _leave_line(self) -> None:
        if self._on_line:
            self._on_line = False
            self._crew.leave_line()

    async def _rest(self) -> bool:
        called = self._crew.rest()
        if called is None:
            return False
        try:
            self._on_line = await called
        except asyncio.CancelledError:
            if called.cancelled():
                self._crew.no_longer_rests(called)
            else:
                self._on_line = called.result()  # It was called, and cannot come: another must.
            raise
        if self._on_line and not self._crew.line:
            self._crew.called_in_vain()
        return self._on_line
