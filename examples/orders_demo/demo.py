"""The course of events: orders come in, the child dies and comes back, everything ends."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from backstay import Client, Unavailable
from examples.orders_demo.board import Board
from examples.orders_demo.child import Child
from examples.orders_demo.screen import Screen
from examples.orders_demo.services import NO_ROAD_TO, count_effects
from examples.orders_demo.shop import Order

LOOK_SECONDS: Final = 0.1
BURST_SECONDS: Final = 0.05
# Long enough to be seen in the terminal.
DEAD_SECONDS: Final = 0.6
# Orders that have not ended so long after the last one came in will not end.
DRAIN_SECONDS: Final = 30
START_SECONDS: Final = 15

_CITIES: Final = ("Lisbon", "Oslo", "Quito", "Kyoto", "Accra", "Perth", "Turin", NO_ROAD_TO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long orders come in, how many a second, and how often the child is killed meanwhile."""

    seconds: float
    rate: int
    kills: int

    def kill_times(self, chance: Random) -> list[float]:
        """Spread evenly, each moved a little, so that no two runs kill at the same instants."""
        gap = self.seconds / (self.kills + 1)
        return [gap * (number + chance.uniform(-0.2, 0.2)) for number in range(1, self.kills + 1)]


class Unfinished(Exception):
    """Something that should have happened long ago has not."""


class Demo:
    """One showing."""

    def __init__(
        self,
        plan: Plan,
        *,
        client: Client,
        child: Child,
        board: Board,
        screen: Screen,
        log: Path,
        chance: Random,
    ) -> None:
        self._plan = plan
        self._client = client
        self._child = child
        self._board = board
        self._screen = screen
        self._log = log
        self._chance = chance
        self._seen = asyncio.Condition()
        self._dead_holders: set[str] = set()

    async def run(self) -> None:
        """Until every order that was accepted has ended."""
        self._start_child()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch())
            orders = group.create_task(self._take_orders())
            await self._kill_now_and_then()
            await orders
            self._screen.tell("no more orders come in")
            await self._until(
                lambda: self._board.finished, seconds=DRAIN_SECONDS, what="orders have not ended"
            )
            watching.cancel()

    # Orders come in, whether or not somebody is there to work on them

    async def _take_orders(self) -> None:
        numbers = itertools.count(1)
        ends = time.monotonic() + self._plan.seconds
        while time.monotonic() < ends:
            due = time.monotonic() + BURST_SECONDS
            burst = itertools.islice(numbers, round(self._plan.rate * BURST_SECONDS))
            await asyncio.gather(*(self._submit(number) for number in burst))
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _submit(self, number: int) -> None:
        city = _CITIES[number % len(_CITIES)]
        order = Order(f"order-{number}", f"customer-{number % 97}", 1_000 + number, city)
        while True:
            try:
                await self._client.submit("fulfil", order, id=order.id)
            except Unavailable:
                # Again under the same id: whether or not it was recorded, it is recorded once.
                await asyncio.sleep(BURST_SECONDS)
            else:
                self._board.accepted.append(order.id)
                return

    # The child dies and comes back

    async def _kill_now_and_then(self) -> None:
        await self._until_at_work()
        for at in self._plan.kill_times(self._chance):
            await asyncio.sleep(max(0.0, at - self._board.seconds))
            self._kill()
            await asyncio.sleep(DEAD_SECONDS)
            self._start_child()
            await self._until_at_work()

    def _kill(self) -> None:
        pid, counts = self._child.pid, self._board.counts
        self._child.kill()
        self._dead_holders |= self._board.holders
        self._board.child = "dead; orders are still accepted"
        self._screen.tell(
            f"kill -9 {pid} with {counts['processing'] + counts['undoing']} orders in its hands"
        )

    def _start_child(self) -> None:
        self._child.start()
        self._board.child = f"starting as process {self._child.pid}"

    async def _until_at_work(self) -> None:
        """Until somebody holds an order who has not been killed."""
        await self._until(
            lambda: bool(self._board.holders - self._dead_holders),
            seconds=START_SECONDS,
            what=f"process {self._child.pid} has not begun to work",
        )
        self._board.child = f"running as process {self._child.pid}"
        self._screen.tell(f"process {self._child.pid} is at work")

    # What is seen

    async def _watch(self) -> None:
        while True:
            self._child.check()
            async with self._seen:
                await self._board.look(self._client)
                self._board.effects = await asyncio.to_thread(count_effects, self._log)
                self._seen.notify_all()
            self._screen.update()
            await asyncio.sleep(LOOK_SECONDS)

    async def _until(self, happened: Callable[[], bool], *, seconds: float, what: str) -> None:
        try:
            async with asyncio.timeout(seconds), self._seen:
                await self._seen.wait_for(happened)
        except TimeoutError:
            raise Unfinished(f"{what} after {seconds} s") from None
