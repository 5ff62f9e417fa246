"""Waiting for something, but not for ever."""

from __future__ import annotations

import asyncio
import contextlib


async def within(seconds: float, event: asyncio.Event) -> None:
    """Come back once the event is set, or so many seconds have passed."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
