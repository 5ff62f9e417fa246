"""An application whose bank answers slowly, and now and then not at all."""

from __future__ import annotations

import asyncio
from collections import Counter

from backstay import App, Breaker, Retry, Transient, current_step

app = App("moody")
bank = app.agent(
    "bank",
    retry=Retry(attempts=100, first="10ms", factor=1),
    breaker=Breaker(failures=3, within="10s", open_for="500ms", open_for_max="500ms"),
    concurrency=10,
)
calls: Counter[str] = Counter()


@bank.step
async def charge(seconds: float, refused: int) -> None:
    """Refuses a task so often before it takes it."""
    calls[current_step().task_id] += 1
    await asyncio.sleep(seconds)
    if calls[current_step().task_id] <= refused:
        raise Transient("<b>the bank</b> is away")


@app.workflow
async def order(seconds: float, refused: int) -> None:
    await charge(seconds, refused)
