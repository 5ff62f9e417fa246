"""Hands what the stages gave of an event to a function, until it succeeds or the time for that is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from backstay.definitions.pipelines import ViaSink
from backstay.domain.durations import describe
from backstay.errors import Permanent, Transient
from backstay.ingest.streams.stages import Refused, is_cancelled, refusal


class Via:
    """The sink of ``.via``: at least once. ``chance`` gives a number in [0, 1)."""

    def __init__(self, sink: ViaSink, *, complete_by: timedelta, chance: Callable[[], float]) -> None:
        self._function = sink.function
        self._retry = sink.retry
        self._complete_by = complete_by if sink.complete_by is None else sink.complete_by
        self._seconds = self._complete_by.total_seconds()
        self._chance = chance
        self._label = f"via {sink.name}"

    async def process(self, value: Any) -> None:
        """Raises Refused when the failure is Permanent, or tries or time are used up."""
        deadline = asyncio.timeout(self._seconds)
        try:
            async with deadline:
                tries = 0
                while (failure := await self._try(value)) is not None:
                    tries += 1
                    if deadline.expired():  # The function has kept its cancellation to itself.
                        raise TimeoutError
                    await self._pause(tries, failure)
        except TimeoutError:
            limit = f"not done within {describe(self._complete_by)}"
            raise Refused(f"{self._label}: {limit}") from None

    async def _try(self, value: Any) -> Exception | None:
        """Call the function once; what it raised."""
        try:
            await self._function(value)
        except Permanent as error:
            raise refusal(self._label, error) from error
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            return RuntimeError("it was cancelled, by itself")
        except Exception as error:  # noqa: BLE001  The function may raise anything at all.
            return error
        return None

    async def _pause(self, tries: int, failure: Exception) -> None:
        """Until the next try. Raises Refused when there is none."""
        retry_after = failure.retry_after if isinstance(failure, Transient) else None
        delay = self._retry.delay_after(tries, self._chance, retry_after=retry_after)
        if delay is None:
            raise refusal(f"{self._label}, tries: {tries}", failure) from failure
        await asyncio.sleep(delay.total_seconds())
