"""How a synchronous function behind a step is called: in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

from backstay.definitions.codec import Function
from backstay.observe import LATE_REPLY, emit


class ThreadedBody:
    """One synchronous function, run for one attempt. ``busy`` tells whether a thread is still at work."""

    def __init__(self, function: Function, context: Context) -> None:
        self._function = function
        self._context = context
        self._threads = 0
        self._idle: Callable[[], None] | None = None

    @property
    def busy(self) -> bool:
        return self._threads > 0

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once no thread is at work any more (at once if none is)."""
        if self.busy:
            self._idle = callback
        else:
            callback()

    async def __call__(self, **arguments: Any) -> Any:
        """Run the function in a thread of its own.

        A daemon thread, not a pool's: one that hangs for ever must neither use up a pool nor keep
        the process from ending. Their number is bounded by the agent's slots: an abandoned thread
        keeps its slot until it ends.
        """
        loop = asyncio.get_running_loop()
        context = self._context.copy()  # The original is entered by the asyncio task that waits here.
        outcome: asyncio.Future[Any] = loop.create_future()

        def report(settle: Callable[[Any], None], value: Any) -> None:
            self._threads -= 1
            if outcome.done():
                emit(LATE_REPLY, step=self._function.__name__)
            else:
                settle(value)
            if self._idle is not None and not self.busy:
                self._idle()

        def work() -> None:
            settle: Callable[[Any], None]
            try:
                value, settle = context.run(self._function, **arguments), outcome.set_result
            except BaseException as error:  # noqa: BLE001  A step may raise anything; it is judged on the loop.
                value, settle = raisable(error), outcome.set_exception
            with contextlib.suppress(RuntimeError):  # The loop is closed: nobody listens any more.
                loop.call_soon_threadsafe(report, settle, value)

        self._threads += 1
        threading.Thread(target=work, name=f"backstay-step-{self._function.__name__}", daemon=True).start()
        return await outcome


def raisable(error: BaseException) -> Exception:
    """The error as a future can carry it: not StopIteration, nor what would end the event loop."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    raised = RuntimeError(f"the step raised {type(error).__name__}({error})")
    raised.__cause__ = error
    return raised
