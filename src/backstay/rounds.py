"""Work that is done again and again, however often the store is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from backstay.errors import BackstayError
from backstay.observe import STORE_UNAVAILABLE, emit
from backstay.pulse import Pulse

_PULSE_SECONDS: Final = 1.0


async def keep_rounds(run_once: Callable[[], Awaitable[object]], *, seconds: float, pulse: Pulse) -> None:
    """One round after the other, with so much rest between them, until cancelled."""
    while True:
        try:
            await run_once()
        except BackstayError as error:
            emit(STORE_UNAVAILABLE, error=error)
        for _ in range(int(seconds / _PULSE_SECONDS)):
            pulse.felt()
            await asyncio.sleep(_PULSE_SECONDS)
