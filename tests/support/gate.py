"""Where the bodies of steps wait until the test lets them go on."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from backstay import current_step


class Gate:
    """Notes every body that ran, by name; a closed gate holds it until it is let through."""

    def __init__(self, *, closed: bool = False) -> None:
        self.closed = closed
        self.ran: list[str] = []
        self._anybody = asyncio.Event()
        self._came: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._may_go: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def enter(self, name: str | None = None, *, held: bool = True) -> str:
        """Called by a body first of all; gives back its name: its step's key, unless it says otherwise."""
        key = name or current_step().key
        self.ran.append(key)
        self._came[key].set()
        self._anybody.set()
        if not (self.closed and held):
            self._may_go[key].set()
        else:
            await self._may_go[key].wait()
        return key

    async def came(self, *keys: str) -> None:
        """Wait until these bodies have begun."""
        async with asyncio.timeout(20):
            for key in keys:
                await self._came[key].wait()

    def let(self, *keys: str) -> None:
        """Let these bodies go on, in this order."""
        for key in keys:
            self._may_go[key].set()

    async def waiting(self) -> list[str]:
        """Those that came and were not let through yet, once there is one; in the order of coming."""
        async with asyncio.timeout(20):
            while not (held := [key for key in dict.fromkeys(self.ran) if not self._may_go[key].is_set()]):
                self._anybody.clear()
                await self._anybody.wait()
        return held
