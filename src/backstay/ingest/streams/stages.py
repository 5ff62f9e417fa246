"""What the stages of a pipeline make of an event.

Whatever a stage raises sets the event aside, with a reason by which a person finds the stage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import CoroutineType
from typing import Any, Final

from backstay.definitions.pipelines import Stage, StageKind
from backstay.domain.stream import REASON_LENGTH_MAX, EventRecord
from backstay.messaging.streams import as_event

#: What is left of an event that a filter said no to.
FILTERED: Final = object()


class Refused(Exception):
    """An event cannot be processed; the message is the reason."""


class Stages:
    """The stages of one pipeline, in their order."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = tuple((one.function, one.kind is StageKind.FILTER, one) for one in stages)
        self.plain = not any(one.is_async for one in stages)

    def judge(self, record: EventRecord) -> Any:
        """What plain stages make of an event, or FILTERED. Raises Refused."""
        value: Any = event_of(record)
        for function, filters, stage in self._stages:
            try:
                given = function(value)
            except Exception as error:
                raise refusal(_label(stage), error) from error
            if type(given) is CoroutineType:
                given.close()
                raise Refused(f"{_label(stage)} gave a coroutine; declare it as an async def")
            if not filters:
                value = given
            elif not given:
                return FILTERED
        return value

    async def judged(self, record: EventRecord) -> Any:
        """The same with stages of which some are awaited."""
        value: Any = event_of(record)
        for function, filters, stage in self._stages:
            try:
                given = function(value)
                # What is declared without async may give something to await all the same.
                if stage.is_async or hasattr(given, "__await__"):
                    given = await given
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                raise Refused(f"{_label(stage)} was cancelled, by itself") from None
            except Exception as error:
                raise refusal(_label(stage), error) from error
            if not filters:
                value = given
            elif not given:
                return FILTERED
        return value


def event_of(record: EventRecord) -> Any:
    """The event as an application reads it. Raises Refused: another program may have appended anything."""
    try:
        return as_event(record)
    except Exception as error:
        raise Refused(f"the body is not JSON: {error}"[:REASON_LENGTH_MAX]) from error


def refusal(where: str, error: BaseException) -> Refused:
    """Why an event is set aside, when ``error`` was raised there."""
    kind = "" if isinstance(error, Refused) else f"{type(error).__name__}: "
    return Refused(f"{where}: {kind}{_said(error)}"[:REASON_LENGTH_MAX])


def _said(error: BaseException) -> str:
    try:
        said = str(error).strip()
    except Exception:  # noqa: BLE001  It is an application's class.
        said = ""
    # NUL and halves of surrogate pairs no database can keep.
    return (said or "no message").replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def is_cancelled() -> bool:
    """Whether somebody cancelled the task that runs, rather than something in it itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _label(stage: Stage) -> str:
    return f"{stage.kind} {stage.name}"
