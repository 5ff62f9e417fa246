"""A steady load, and how it goes through an outage.

So many small tasks a second are submitted, whatever became of those before; a submission that fails
is made again under the same id, as a caller would. What the machine could do beyond that is not
asked: the rate is that of the callers, so that two windows of time can be compared.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from backstay import App, current_step
from backstay.client import Client
from backstay.errors import Unavailable
from backstay.store.postgres import PostgresStore
from tests.support.running import running

RATE = 40  # tasks a second
STEP_SECONDS = 0.05
WINDOW_SECONDS = 2.0

#: What the requirement wants: this share of the rate before, so soon after the server is back.
SHARE = 0.95
WITHIN_SECONDS = 10.0


@dataclass
class Load:
    """What was submitted, acknowledged and done, and when."""

    began: dict[str, float] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    ended: dict[str, float] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)
    refused: int = 0

    def app(self) -> App:
        app = App("load")
        agent = app.agent("agent", concurrency=200)

        @agent.step
        async def act() -> None:
            self.effects[current_step().idempotency_key] += 1
            await asyncio.sleep(STEP_SECONDS)

        @app.workflow
        async def work() -> None:
            await act()
            await act()

        return app

    # The callers

    async def call_steadily(self, client: Client) -> None:
        """Until cancelled; then those who wait go on waiting."""
        callers = set()
        start = time.monotonic()
        for number in itertools.count():
            await asyncio.sleep(start + number / RATE - time.monotonic())
            caller = asyncio.create_task(self._call(client, f"t{number}"))
            callers.add(caller)
            caller.add_done_callback(callers.discard)

    async def _call(self, client: Client, task_id: str) -> None:
        self.began[task_id] = time.monotonic()
        while task_id not in self.acknowledged:
            try:
                handle = await client.submit("work", id=task_id)
            except Unavailable:
                self.refused += 1
                await asyncio.sleep(0.1)
            else:
                self.acknowledged.add(task_id)
                await handle.result()
        self.ended[task_id] = time.monotonic()

    # What became of it

    def outstanding(self, at: float) -> int:
        """How many had been submitted by then, or were being so, and had not ended."""
        return sum(one <= at for one in self.began.values()) - sum(one <= at for one in self.ended.values())

    def rate(self, since: float) -> float:
        """Tasks a second in the window that begins then."""
        return sum(since <= end < since + WINDOW_SECONDS for end in self.ended.values()) / WINDOW_SECONDS

    async def recovered(self, *, since: float, rate: float, outstanding: int) -> float:
        """How long after ``since`` a window began with the old rate, and with nothing piled up any more.

        The one without the other would not do: what has piled up makes any rate look good.
        """
        window = since
        while True:
            await asyncio.sleep(window + WINDOW_SECONDS - time.monotonic())
            piled_up = max(self.outstanding(at) for at in (window, window + WINDOW_SECONDS))
            if self.rate(window) >= SHARE * rate and piled_up <= outstanding:
                return window - since
            if window - since > WITHIN_SECONDS:
                raise AssertionError(
                    f"{self.rate(window):.1f} tasks a second, {piled_up} outstanding;"
                    f" before it were {rate:.1f} and {outstanding}"
                )
            window += 0.1


class Outage:
    """Somebody takes the server away for a while, under load."""

    def __init__(self, load: Load, before: float) -> None:
        self.load = load
        # In a window that catches up on the one before it, more may end than is submitted.
        self._rate = min(load.rate(before), float(RATE))
        self._outstanding = load.outstanding(before) + RATE // 4
        assert self._rate > RATE / 2, "the machine is too busy to measure anything"

    async def over(self, *, what: str) -> None:
        """The server is back just now: the load goes as before, in time."""
        load, back_at = self.load, time.monotonic()
        piled_up = load.outstanding(back_at)
        took = await load.recovered(since=back_at, rate=self._rate, outstanding=self._outstanding)
        after = load.rate(back_at + took)
        repeated = sum(load.effects.values()) - len(load.effects)
        print(
            f"{what}: {self._rate:.1f} tasks/s before, {after:.1f} again after {took:.1f} s;"
            f" {piled_up} piled up, {load.refused} submissions refused, {repeated} steps repeated"
        )


@asynccontextmanager
async def under_load(*urls: str, lease: str = "15s", heartbeat: str = "5s") -> AsyncIterator[Outage]:
    """An application per url, and the callers of the first; at the end everything submitted has ended."""
    load = Load()
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                running(load.app(), PostgresStore(url), lease=lease, heartbeat=heartbeat)
            )
            for url in urls
        ]
        calling = asyncio.create_task(load.call_steadily(clients[0]))
        stack.callback(calling.cancel)
        await asyncio.sleep(0.5)  # until the first have gone through
        before = time.monotonic()
        await asyncio.sleep(WINDOW_SECONDS)
        yield Outage(load, before)
        calling.cancel()
        async with asyncio.timeout(WITHIN_SECONDS):
            while load.outstanding(time.monotonic()):
                await asyncio.sleep(0.01)
