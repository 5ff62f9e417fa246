"""Requests of schedulers in other processes: taken up out of the store, done here, answered there.

No more are taken up than there are free slots, and none for an agent whose breaker is open or that is held
back. Replies gather while others are being written, and leave together. What a scheduler has withdrawn is
found at the next look, and stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from backstay.agents.host import AgentHost
from backstay.clock import Clock
from backstay.domain.lease import Owner
from backstay.domain.request import (
    Failed,
    Reference,
    Reply,
    Request,
    RequestStanding,
    reply_document,
    request_of,
)
from backstay.domain.step import Failure
from backstay.errors import BackstayError, Unavailable
from backstay.messaging.wire import Execution, Ticket
from backstay.observe import LATE_REPLY, STORE_UNAVAILABLE, emit
from backstay.pulse import Pulse
from backstay.settings import Settings
from backstay.store.base import Changes, Store
from backstay.store.requests import Answered, Taken

# How often we look although nobody called: a slot may be free again, or a breaker closed.
LOOK_SECONDS: Final = 1.0

# So many replies are written at once.
REPLIES_MAX: Final = 1_000

# A process that stops gives its last replies so long.
FAREWELL_SECONDS: Final = 2.0


class Work:
    """A request that this process has taken up."""

    __slots__ = ("_inbox", "deadline", "execution", "request", "stopping", "ticket")

    def __init__(self, inbox: Inbox, request: Request, *, deadline: float) -> None:
        self._inbox = inbox
        self.request = request
        self.deadline = deadline
        self.ticket: Ticket | None = None
        self.execution: Execution | None = None
        self.stopping = False

    @property
    def reference(self) -> Reference:
        return self.request.reference

    def stand_in_line(self, ticket: Ticket) -> None:
        self.ticket = ticket
        if not ticket.granted:
            ticket.when_changed(self.go_on)
        self.go_on()

    def go_on(self) -> None:
        """Begin if there is a slot; if nobody is let in any more, another process may have the request."""
        if self.ticket is None or self.execution is not None:
            return
        if self.ticket.granted:
            self._inbox.begin(self, self.ticket)
        elif self.ticket.open_in_seconds() > 0:
            self.step_back()

    def step_back(self) -> None:
        """Leave the line: nothing was begun."""
        if self.ticket is not None and self.execution is None:
            self.ticket.give_back()
            self.ticket = None
            self._inbox.give_back(self)

    def stop(self, stopped: Callable[[], None]) -> None:
        """Nobody waits for it any more; ``stopped`` hears when nothing of it is at work."""
        if self.stopping:
            return
        self.stopping = True
        if self.execution is not None:
            self.execution.cancel(stopped)
            return
        if self.ticket is not None:
            self.ticket.give_back()
            self.ticket = None
        stopped()


class Inbox:
    """The requests that one process works on for schedulers in others."""

    def __init__(
        self, store: Store, owner: Owner, host: AgentHost, *, settings: Settings, clock: Clock
    ) -> None:
        self._store = store
        self._owner = owner
        self._host = host
        self._settings = settings
        self._clock = clock
        self._works: dict[Reference, Work] = {}
        # What is to be said, and until when; what is to be given back.
        self._unsaid: dict[Reference, tuple[Answered, float]] = {}
        self._unbegun: list[Reference] = []
        self._called = asyncio.Event()
        self._to_say = asyncio.Event()
        # Whether somebody told us of requests, and whether some may have been withdrawn.
        self._told = True
        self._to_look = True
        self._closing = False
        self.pulse = Pulse(clock)

    @property
    def in_hand(self) -> int:
        """How many requests have been taken up and are not answered."""
        return len(self._works) + len(self._unsaid) + len(self._unbegun)

    def call(self) -> None:
        """Steps may begin that could not before."""
        self._called.set()

    def look_soon(self) -> None:
        """Something may have been withdrawn."""
        self._to_look = True
        self._called.set()

    def close(self) -> None:
        """Take up nothing any more; what is at work goes on, what is in line is given back."""
        self._closing = True
        for work in list(self._works.values()):
            work.step_back()
        self._called.set()

    async def run(self) -> None:
        """Take up and answer, until cancelled. Raises LeaseLost when this instance was declared dead."""
        stop_listening = self._store.listen(self._changed)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._take_up(), name="backstay-requests")
                group.create_task(self._say(), name="backstay-replies")
        finally:
            stop_listening()
            await asyncio.shield(self._leave())

    # Taking up

    async def _take_up(self) -> None:
        while True:
            self._called.clear()
            self.pulse.felt()
            try:
                taken = await self.run_once()
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
                self._told = self._to_look = True
                await asyncio.sleep(LOOK_SECONDS)
                continue
            if not taken:
                await self._until_called()

    async def _until_called(self) -> None:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._called.wait()
        except TimeoutError:
            self.look_soon()

    async def run_once(self) -> int:
        """Stop what was withdrawn, then take up as much as there are slots for; the number taken up."""
        if self._to_look:
            self._to_look = False
            await self._look()
        if self._unbegun:
            await self._store.requests.release(self._owner, self._unbegun)
            self._unbegun = []
        room = {} if self._closing else self._host.vacancies(self._settings.requests_open)
        if not room:
            return 0
        told, self._told = self._told, False
        if not told and not await self._store.requests.waiting([*room], now=self._clock.now()):
            return 0
        # Counted from before the call: a slow answer must not stretch what remains.
        asked_at = self._clock.monotonic()
        taken = await self._store.requests.claim(self._owner, room, now=self._clock.now())
        for one in taken:
            self._accept(one, asked_at)
        return len(taken)

    def _accept(self, taken: Taken, asked_at: float) -> None:
        remaining = taken.remaining_seconds - (self._clock.monotonic() - asked_at)
        deadline = self._clock.monotonic() + remaining
        try:
            request = request_of(taken.body, task_key=taken.reference.task_key, remaining_seconds=remaining)
        except msgspec.DecodeError as error:
            unreadable = Failure(
                "InvalidRequest", f"the request cannot be read here: {error}", permanent=True
            )
            self._answer(taken.reference, Failed(unreadable, unsure=False), deadline)
            return
        if not self._host.has(request.operation):
            missing = (
                f"this process has no step {request.operation!r}; it may run another version of the code"
            )
            self._answer(
                request.reference,
                Failed(Failure("Unregistered", missing, request.step), unsure=False),
                deadline,
            )
            return
        work = self._works[request.reference] = Work(self, request, deadline=deadline)
        work.stand_in_line(self._host.reserve(request.agent))

    def begin(self, work: Work, ticket: Ticket) -> None:
        """There is a slot for it."""
        remaining = work.deadline - self._clock.monotonic()
        if remaining <= 0:  # Past its complete-by nothing is started.
            ticket.give_back()
            self._works.pop(work.reference, None)
            return
        request = msgspec.structs.replace(work.request, remaining_seconds=remaining)
        work.execution = self._host.execute(ticket, request, partial(self._replied, work))

    def give_back(self, work: Work) -> None:
        """It was not begun, and is not going to be: another process may have it."""
        if self._works.pop(work.reference, None) is not None:
            self._unbegun.append(work.reference)
            self._called.set()

    # What was withdrawn

    async def _look(self) -> None:
        now = self._clock.monotonic()
        for work in [work for work in self._works.values() if work.deadline <= now]:
            # It has fallen silent by itself, and nobody wants to hear of it.
            del self._works[work.reference]
            if work.execution is None and work.ticket is not None:
                work.ticket.give_back()
        for standing in await self._store.requests.held(self._owner):
            self._judge(standing)

    def _judge(self, held: RequestStanding) -> None:
        reference = held.reference
        work = self._works.get(reference)
        if work is not None:
            if held.withdrawn:
                work.stop(partial(self._stopped, work))
        elif reference in self._unsaid or reference in self._unbegun:
            return
        elif held.withdrawn:
            self._unsaid[reference] = Answered(reference), float("inf")
            self._to_say.set()
        elif held.is_live(self._clock.now()):
            # Ours by the store, and never begun: the answer to our claim was lost.
            self._unbegun.append(reference)

    def _stopped(self, work: Work) -> None:
        self._works.pop(work.reference, None)
        self._unsaid[work.reference] = Answered(work.reference), float("inf")
        self._to_say.set()

    # Answering

    def _replied(self, work: Work, reply: Reply) -> None:
        self._works.pop(work.reference, None)
        self._answer(work.reference, reply, work.deadline)

    def _answer(self, reference: Reference, reply: Reply, deadline: float) -> None:
        self._unsaid[reference] = Answered(reference, reply_document(reply)), deadline
        self._to_say.set()
        self._called.set()  # There is a slot again.

    async def _say(self) -> None:
        """Write what there is to say, and meanwhile let more gather."""
        again = False
        while True:
            await self._to_say.wait()
            try:
                await self.say_once(again=again)
                again = False
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
                again = True  # It may have been written all the same.
                await asyncio.sleep(LOOK_SECONDS)

    async def say_once(self, *, again: bool = False) -> None:
        """Write a batch of replies. What was too late to change anything is counted, unless said before."""
        self._to_say.clear()
        now = self._clock.monotonic()
        # Past its complete-by an agent says nothing.
        for reference in [one for one, (_, until) in self._unsaid.items() if until <= now]:
            del self._unsaid[reference]
        batch = [answer for answer, _ in self._unsaid.values()][:REPLIES_MAX]
        if not batch:
            return
        try:
            in_time = await self._store.requests.answer(batch, now=self._clock.now())
        except BaseException:
            self._to_say.set()
            raise
        for answer, taken in zip(batch, in_time, strict=True):
            del self._unsaid[answer.reference]
            if not taken and answer.reply is not None and not again:
                emit(LATE_REPLY, task_key=answer.reference.task_key, step=answer.reference.step)
        if self._unsaid:
            self._to_say.set()

    # The end

    async def _leave(self) -> None:
        """Stop what is at work, and say what there still is to say."""
        for work in list(self._works.values()):
            work.stop(lambda: None)
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                while self._unsaid:
                    await self.say_once()
        except (TimeoutError, BackstayError):
            return  # Whoever waits for it finds that this process has ended.

    def _changed(self, changes: Changes) -> None:
        if changes.withdrawn or changes.foreign:
            self.look_soon()
        if changes.requests:
            self._told = True
            self._called.set()
