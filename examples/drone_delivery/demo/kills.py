"""``kill -9`` to one of the processes, again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import aiohttp

from drone_delivery.demo.processes import Processes


async def kill_now_and_then(
    processes: Processes,
    session: aiohttp.ClientSession,
    *,
    every_seconds: float,
    chance: Random,
    tell: Callable[[str], None],
) -> None:
    """Kill one at random, start it again, wait until it is up, and so on until cancelled."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        due = max(due + every_seconds, loop.time())
        await asyncio.sleep(due - loop.time())
        victim = chance.choice(list(processes))
        pid = victim.kill()
        victim.start()
        tell(f"kill -9 {pid}: {victim.name}; started again as {victim.pid}")
        await processes.up(victim, session)
