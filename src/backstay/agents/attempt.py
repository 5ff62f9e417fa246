"""One attempt of one step: try, wait, try again, and reply; or fall silent at the complete-by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from backstay.agents.body import Body
from backstay.agents.counter import Counter
from backstay.clock import Alarms, Clock
from backstay.definitions.agents import Step
from backstay.definitions.ambient import StepContext, current_context, current_scope
from backstay.definitions.codec import Function, check_size
from backstay.domain.retry import RETRY_AFTER_MAX, Retry
from backstay.domain.step import failure_of
from backstay.errors import InvalidDefinition, InvalidRequest, Permanent, Transient
from backstay.messaging.wire import Completed, Deferred, Failed, Reply, Request
from backstay.observe import STEP_RETRIED, emit, log


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every attempt of a process shares."""

    clock: Clock
    alarms: Alarms
    random: Random
    payload_bytes_max: int


@dataclass(frozen=True, slots=True)
class Setback:
    """A try that failed, and may be followed by another."""

    error: BaseException
    retry_after: timedelta | None


class Attempt:
    """Runs as one asyncio task. Replies at most once, and not after the request's complete-by."""

    def __init__(
        self,
        step: Step[..., Any],
        request: Request,
        *,
        counter: Counter,
        around: Surroundings,
        reply: Callable[[Reply], None],
    ) -> None:
        self._step = step
        self._request = request
        self._counter = counter
        self._around = around
        self._reply = reply
        self._cancelled = False
        self._at_rest = False
        self._unsure = False  # Some try ended without a verdict of the service.
        self._on_cancelled: Callable[[], None] | None = None
        self._deadline = around.clock.monotonic() + request.remaining_seconds
        context = self._context()
        self._body = Body(self._function(), is_async=self._is_async(), context=context)
        self._alarm = around.alarms.after(request.remaining_seconds, self._abandon)
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name=f"step {request.step}", context=context
        )
        self._task.add_done_callback(self._finished)

    def cancel(self, ended: Callable[[], None]) -> None:
        """Nobody waits any more; ``ended`` is called once the body is known to have stopped."""
        self._on_cancelled = ended
        if self._at_rest:
            ended()  # It fell silent by itself, a moment ago.
        elif not self._task.done():
            self._abandon()

    # What is called, and with what

    def _function(self) -> Function:
        if not self._request.undo:
            return self._step.function
        if self._step.undo_of is None:
            raise InvalidDefinition(f"step {self._step.name} declares no undo")
        return self._step.undo_of.function

    def _is_async(self) -> bool:
        undo = self._step.undo_of
        return undo.is_async if self._request.undo and undo is not None else self._step.is_async

    def _retry(self) -> Retry:
        undo = self._step.undo_of
        return undo.retry if self._request.undo and undo is not None else self._step.retry

    def _arguments(self) -> dict[str, Any]:
        arguments = self._step.signature.decode(self._request.input)
        undo = self._step.undo_of
        if self._request.undo and undo is not None and undo.takes_result:
            result = self._request.result
            arguments["result"] = None if result is None else self._step.returns.decode(result)
        return arguments

    def _context(self) -> Context:
        request = self._request
        context = copy_context()
        # The body is no longer inside the workflow: a step that it calls is a plain function.
        context.run(current_scope.set, None)
        context.run(
            current_context.set,
            StepContext(
                task_id=request.task_id,
                key=request.step,
                attempt=request.attempt,
                idempotency_key=request.idempotency_key,
                complete_by=request.complete_by,
                outcome=request.outcome,
                _remaining=self._remaining,
                _cancelled=lambda: self._cancelled,
            ),
        )
        return context

    def _remaining(self) -> timedelta:
        return timedelta(seconds=max(0.0, self._deadline - self._around.clock.monotonic()))

    # The course of an attempt

    async def _run(self) -> Reply:
        tries = 0
        while True:
            tries += 1
            try:
                # Decoded for every try: what a body does to its arguments stays its own.
                arguments = self._arguments()
            except InvalidRequest as error:
                return self._failed_for_good(error)
            verdict = await self._try(arguments)
            if not isinstance(verdict, Setback):
                return verdict
            failure = failure_of(verdict.error, step=self._request.step)
            pause = self._pause_after(tries, verdict)
            if pause is None:
                self._tell(verdict.error)
                return Failed(failure, unsure=self._unsure, retry_after=verdict.retry_after)
            emit(STEP_RETRIED, task_id=self._request.task_id, step=self._request.step, error=failure.message)
            await self._around.alarms.sleep(pause)
            if not self._counter.admit():
                return Deferred(failure, unsure=self._unsure)

    async def _try(self, arguments: dict[str, Any]) -> Reply | Setback:
        """One call of the body: a reply, or the setback after which it may be called again."""
        try:
            result = await self._body.call(arguments)
        except Permanent as error:
            self._counter.answered()
            return self._failed_for_good(error, unsure=error.unsure)
        except asyncio.CancelledError as error:
            if self._cancelled:
                raise
            return self._service_failed(error)  # The body cancelled itself: a failure like any other.
        except Exception as error:  # noqa: BLE001  A step may raise anything at all.
            return self._service_failed(error)
        self._counter.answered()
        return self._encoded(result)

    def _encoded(self, result: Any) -> Reply:
        if self._request.undo:
            return Completed(b"null")
        try:
            output = self._step.returns.encode(result)
            check_size(output, f"result of step {self._step.name}", self._around.payload_bytes_max)
            return Completed(output)
        except InvalidRequest as error:
            # The work is done, but nobody can be told what came out of it.
            return self._failed_for_good(error, unsure=True)

    def _pause_after(self, tries: int, setback: Setback) -> float | None:
        """Seconds until the next try, or ``None`` when there is none."""
        # Without idempotency a second call might do the work twice, if this one may have done it.
        if self._unsure and not self._step.idempotent and not self._request.undo:
            return None
        delay = self._retry().delay_after(tries, self._around.random.random, retry_after=setback.retry_after)
        if delay is None or delay >= self._remaining():
            return None
        return delay.total_seconds()

    def _service_failed(self, error: BaseException) -> Setback:
        self._counter.failed()
        said = error if isinstance(error, Transient) else Transient()
        self._unsure = self._unsure or said.unsure
        pause = None if said.retry_after is None else min(said.retry_after, RETRY_AFTER_MAX)
        return Setback(error, pause)

    def _failed_for_good(self, error: Exception, *, unsure: bool = False) -> Failed:
        failure = failure_of(error, step=self._request.step, permanent=True)
        # An earlier try may have taken effect although this one was refused.
        return Failed(failure, unsure=self._unsure or unsure)

    def _tell(self, error: BaseException) -> None:
        """Say where a step raised what may well be a mistake in it; a failure that it reports is none."""
        if not isinstance(error, (Transient, ConnectionError, TimeoutError, asyncio.CancelledError)):
            log.warning(
                "step %s of task %s raised", self._request.step, self._request.task_id, exc_info=error
            )

    # The end of an attempt

    def _abandon(self) -> None:
        """The complete-by has passed, or nobody waits: stop what can be stopped and say nothing."""
        self._cancelled = True
        self._task.cancel()

    def _finished(self, task: asyncio.Task[Reply]) -> None:
        self._alarm.cancel()
        if self._cancelled:
            self._fell_silent(task)
        # The breaker has heard of it by now: whoever gets the slot is let in by what it knows.
        self._body.when_idle(self._stopped)
        if not self._cancelled:
            self._reply(task.result())

    def _stopped(self) -> None:
        """Nothing of it is at work any more; a thread may have taken its time to see the cancel token."""
        self._at_rest = True
        self._counter.free()
        if self._on_cancelled is not None:
            self._on_cancelled()

    def _fell_silent(self, task: asyncio.Task[Reply]) -> None:
        if not task.cancelled():
            task.exception()  # It came too late to matter; asyncio wants to see it looked at.
        if self._on_cancelled is None:
            self._counter.failed()  # No answer within the time it had: that is the service's failure.
        else:
            self._counter.withdrawn()
