"""One message at a time through an idle queue: from the call that sends it to a process that waits for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from backstay import App
from backstay.messaging.handles import QueueHandle
from bench.letters import IDLE_PAUSE_SECONDS, QUEUE, age_seconds, stamped
from bench.load import WARM_UP, in_fresh_loop

_WAIT: Final = "10s"


def queue_app() -> App:
    app = App("bench")
    app.queue(QUEUE)
    return app


async def idle_latencies(store: str, number: int) -> list[float]:
    """Seconds of ``number`` messages, in rising order, after a few that do not count."""
    async with queue_app().client(store=store) as client, _receiver(store) as ages:
        latencies = []
        for _ in range(WARM_UP + number):
            await asyncio.sleep(IDLE_PAUSE_SECONDS)
            await client.queue(QUEUE).send(stamped())
            latencies.append(float(await ages.readline()))
        return sorted(latencies[WARM_UP:])


@asynccontextmanager
async def _receiver(store: str) -> AsyncIterator[asyncio.StreamReader]:
    """A process that receives, and prints how old each message was. It leaves when its input ends."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, store), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.stdin.close()
        await process.wait()


# Inside the other process


async def _receive(store: str) -> None:
    async with queue_app().client(store=store) as client:
        told_to_leave = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        receiving = asyncio.ensure_future(_receive_all(client.queue(QUEUE)))
        await asyncio.wait([receiving, told_to_leave], return_when=asyncio.FIRST_COMPLETED)
        receiving.cancel()
        await asyncio.wait([receiving])


async def _receive_all(queue: QueueHandle) -> None:
    while True:
        for message in await queue.receive(wait=_WAIT):
            print(age_seconds(message.body), flush=True)
            await message.complete()


if __name__ == "__main__":
    in_fresh_loop(_receive(sys.argv[1]))
