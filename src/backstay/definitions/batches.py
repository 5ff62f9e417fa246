"""What ``@app.batch`` declares, and what its function is given beside the events."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from backstay.domain.durations import Duration, describe, duration
from backstay.domain.retry import Retry
from backstay.domain.stream import READ_MAX, Event
from backstay.domain.task import check_id
from backstay.errors import InvalidDefinition

MAX_EVENTS_USUAL: Final = 500
MAX_WAIT_MOST: Final = timedelta(hours=1)


class Checkpoint(Protocol):
    """Writes down how far a group has got in the partition of the batch."""

    async def __call__(self, event: Event | None = None) -> None:
        """Everything up to ``event``, and it, is finished; without one, the whole batch.

        Raises LeaseLost when the partition is somebody else's by now: then stop.
        """


#: Gets each batch of events, and how to say that they are finished.
BatchHandler = Callable[[list[Event], Checkpoint], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class BatchDefinition:
    """Who handles the events of a stream in batches, partition by partition."""

    stream: str
    group: str
    handler: BatchHandler
    max_events: int
    max_wait: timedelta
    retry: Retry

    @property
    def label(self) -> str:
        return f"{self.stream}/{self.group}"


def batch_definition(
    stream: str,
    group: str,
    handler: BatchHandler,
    *,
    max_events: int,
    max_wait: Duration,
    retry: Retry | None,
) -> BatchDefinition:
    check_id(stream, name="name of the stream")
    check_id(group, name="name of the group")
    if not inspect.iscoroutinefunction(handler):
        raise InvalidDefinition(f"the batch handler of {stream}/{group} must be an async def")
    if not 1 <= max_events <= READ_MAX:
        raise InvalidDefinition(f"max_events is {max_events}; it must be 1 to {READ_MAX:,}")
    wait = duration(max_wait, name="max_wait")
    if wait > MAX_WAIT_MOST:
        raise InvalidDefinition(
            f"max_wait is {describe(wait)}; at most {describe(MAX_WAIT_MOST)} are allowed"
        )
    return BatchDefinition(stream, group, handler, max_events, wait, retry or Retry())
