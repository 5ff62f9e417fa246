"""The child process: it runs the shop until its parent closes its standard input, or kills it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from random import Random

from examples.orders_demo.services import Services
from examples.orders_demo.shop import shop


async def work(store: str, log: Path) -> None:
    with Services(log, Random()) as services:
        async with shop(services).run(store=store, supervisor_period="250ms"):
            # However the parent ends, its end of the pipe is closed.
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2])))
