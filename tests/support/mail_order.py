"""A shop that sends what was ordered, interrupted at will, and what is recorded of its orders."""

from __future__ import annotations

import asyncio
from typing import Any

from backstay import App, Recovery, current_step
from tests.support.databases import Database
from tests.support.running import FASTER, ONCE, SOON
from tests.support.stores import DyingStore


class Shop:
    """An order of two steps; the second one waits until the test lets it go on."""

    def __init__(self, *, complete_by: str = "10m", idempotent: bool = True, **recovery: Any) -> None:
        self.app = App("shop")
        self.paid: list[str] = []
        self.sent: list[int] = []
        self.refunded: list[str] = []
        self.began = asyncio.Event()
        self.open = asyncio.Event()
        agent = self.app.agent("shop", retry=ONCE)

        @agent.step
        async def pay() -> str:
            self.paid.append(current_step().idempotency_key)
            return "paid"

        @pay.undo
        async def refund(*, result: str | None) -> None:
            self.refunded.append(str(result))

        @agent.step(idempotent=idempotent)
        async def send() -> str:
            self.sent.append(current_step().attempt)
            self.began.set()
            await self.open.wait()
            return f"sent at attempt {current_step().attempt}"

        @self.app.workflow(complete_by=complete_by, recovery=Recovery(**recovery))
        async def order() -> str:
            await pay()
            return await send()

        self.order = order

    async def at_work(self) -> None:
        await asyncio.wait_for(self.began.wait(), SOON)
        self.began.clear()

    async def crash(self, database: Database) -> None:
        """Run until the second step is at work, and die."""
        async with self.app.run(database.store_as(DyingStore), **FASTER | database.heir()):
            await self.app.submit(self.order, id="t")
            await self.at_work()


def record(database: Database, task_id: str = "t") -> dict[str, Any]:
    """What is recorded of a task: its state, whose it is, and who is blamed for what."""
    names = ("state", "locked_by", "complete_by", "failure_count", "crash_count")
    [row] = database.rows(f"SELECT {', '.join(names)} FROM task WHERE id = ?", task_id)
    return dict(zip(names, row, strict=True))
