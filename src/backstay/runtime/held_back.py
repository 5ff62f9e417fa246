"""What operators hold back is obeyed in this process, and what waited for it is called when it may go on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from backstay.agents.host import AgentHost
from backstay.agents.inbox import Inbox
from backstay.clock import Clock
from backstay.domain.control import Controls
from backstay.errors import Unavailable
from backstay.observe import STORE_UNAVAILABLE, emit
from backstay.scheduler.loop import Scheduler
from backstay.settings import Settings
from backstay.store.base import Changes, Store

# Others may write all the time: what they decided is looked at a few times a second.
LOOK_PAUSE_SECONDS: Final = 0.1

# While nothing was ever read, and when a call could not be made: then once more after this pause.
AGAIN_SECONDS: Final = 1.0

# So long tasks that are about to park are waited for before they are called back.
CALL_BACK_SECONDS: Final = 5.0


class HeldBack:
    """Two loops, so that nobody who calls tasks back keeps a decision from being obeyed."""

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler | None,
        agents: AgentHost | None,
        inbox: Inbox | None,
        *,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._agents = agents
        self._inbox = inbox
        self._heartbeat = settings.heartbeat.total_seconds()
        self._clock = clock
        self._known = asyncio.Event()
        self._due = asyncio.Event()
        # Agents whose steps may begin again: those that wait for it are still to be called, or just being.
        self._let_in: set[str] = set()
        self._being_called: set[str] = set()
        self._call_due = asyncio.Event()
        if scheduler is not None:
            scheduler.mail.when_let_in(self._agents_came)

    @property
    def in_motion(self) -> bool:
        """Whether something is still to be read or called although no time passes."""
        reading = self._due.is_set() or not self._known.is_set()
        return reading or bool(self._let_in or self._being_called)

    async def until_known(self) -> None:
        """Before the first step begins, it must be known what may not."""
        await self._known.wait()

    def changed(self, changes: Changes) -> None:
        if changes.controls or changes.foreign:
            self._due.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_obeying(), name="backstay-controls")
            group.create_task(self._keep_calling(), name="backstay-calls")

    # Obeying

    async def _keep_obeying(self) -> None:
        """Read what is held back when it may have changed, and now and then in any case."""
        while True:
            self._due.clear()
            try:
                self._obey(Controls(await self._store.records.controls()))
                self._known.set()
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
            await asyncio.sleep(LOOK_PAUSE_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat if self._known.is_set() else AGAIN_SECONDS):
                    await self._due.wait()

    def _obey(self, controls: Controls) -> None:
        here = [] if self._agents is None else self._agents.regulate(controls)
        if here and self._inbox is not None:
            self._inbox.call()
        elsewhere = [] if self._scheduler is None else self._scheduler.mail.regulate(controls)
        self._may_begin([*here, *elsewhere])

    # Calling back

    def _agents_came(self, agents: list[str]) -> None:
        """Some process does the work of these agents; nobody did before, or their breakers were open."""
        self._may_begin(agents)
        self._due.set()

    def _may_begin(self, agents: Iterable[str]) -> None:
        self._let_in.update(agents)
        if self._let_in:
            self._call_due.set()

    async def _keep_calling(self) -> None:
        while True:
            await self._call_due.wait()
            self._call_due.clear()
            self._being_called, self._let_in = self._let_in, set()
            heard = False
            try:
                heard = await self._call(self._being_called)
            except Unavailable as error:
                emit(STORE_UNAVAILABLE, error=error)
            if not heard:
                await asyncio.sleep(AGAIN_SECONDS)
                self._may_begin(self._being_called)
            self._being_called = set()

    async def _call(self, agents: set[str]) -> bool:
        """Call the tasks that were parked because of these agents; whether all of them can have heard it."""
        # Some may have found them shut a moment ago. Who is called before it is written that it parked
        # does not hear that; so what cannot be written in time is called once more.
        written = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CALL_BACK_SECONDS):
                if self._scheduler is not None:
                    await self._scheduler.unanswered.those_of_now()
                written = True
        for agent in sorted(agents):
            await self._store.records.call_for(agent, now=self._clock.now())
        return written
