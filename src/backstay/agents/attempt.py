"""One attempt of one step: try, wait, try again, and reply; or fall silent at the complete-by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from backstay.agents.body import ThreadedBody, raisable
from backstay.agents.counter import Counter
from backstay.clock import Alarm, Alarms, Clock
from backstay.definitions.agents import Step
from backstay.definitions.ambient import StepContext, current_context
from backstay.definitions.codec import check_size
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
    # What bodies find set when they begin. Not that of whoever sends a request: that may be a workflow.
    context: Context


@dataclass(frozen=True, slots=True)
class Setback:
    """A try that failed, and may be followed by another."""

    error: BaseException
    retry_after: timedelta | None


class Attempt:
    """A piece of ``Work`` for the crew. Replies at most once, and not after the request's complete-by."""

    __slots__ = (
        "_alarm",
        "_around",
        "_at_rest",
        "_body",
        "_counter",
        "_deadline",
        "_member",
        "_on_cancelled",
        "_reply",
        "_request",
        "_step",
        "_unsure",
        "cancelled",
        "context",
    )

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
        self.cancelled = False
        self._at_rest = False
        self._unsure = False  # Some try ended without a verdict of the service.
        self._on_cancelled: Callable[[], None] | None = None
        self._alarm: Alarm | None = None
        self._member: asyncio.Task[None] | None = None
        self._deadline = around.clock.monotonic() + request.remaining_seconds
        self.context = around.context.copy()
        self.context.run(
            current_context.set,
            StepContext(
                task_id=request.task_id,
                key=request.step,
                attempt=request.attempt,
                idempotency_key=request.idempotency_key,
                complete_by=request.complete_by,
                outcome=request.outcome,
                _running=self,
            ),
        )
        declared = step if not request.undo else step.undo_of
        if declared is None:
            raise InvalidDefinition(f"step {step.name} declares no undo")
        self._body = declared.function if declared.is_async else ThreadedBody(declared.function, self.context)

    @property
    def remaining(self) -> timedelta:
        return timedelta(seconds=max(0.0, self._deadline - self._around.clock.monotonic()))

    def cancel(self, ended: Callable[[], None]) -> None:
        """Nobody waits any more; ``ended`` is called once the body is known to have stopped."""
        self._on_cancelled = ended
        if self._at_rest:
            ended()  # It fell silent by itself, a moment ago.
        else:
            self._abandon()

    # What is called, and with what

    def _retry(self) -> Retry:
        undo = self._step.undo_of
        return undo.retry if self._request.undo and undo is not None else self._step.retry

    def _arguments_of_undo(self) -> dict[str, Any]:
        arguments = self._step.signature.decode(self._request.input)
        undo = self._step.undo_of
        if undo is not None and undo.takes_result:
            result = self._request.result
            arguments["result"] = None if result is None else self._step.returns.decode(result)
        return arguments

    # For the crew

    def begin(self, member: asyncio.Task[None]) -> Coroutine[Any, Any, None] | None:
        if self._around.clock.monotonic() >= self._deadline:
            self.cancelled = True  # Past its complete-by nothing is started.
        if self.cancelled:
            self._fell_silent()
            return None
        self._member = member
        return self._run()

    def waits(self) -> None:
        # Set no sooner: most steps that never wait are done before an alarm could ring.
        self._alarm = self._around.alarms.after(
            max(0.0, self._deadline - self._around.clock.monotonic()), self._abandon
        )

    def stopped(self) -> None:
        self.cancelled = True
        self._member = None
        if self._alarm is not None:
            self._alarm.cancel()
        self._fell_silent()

    # The course of an attempt

    async def _run(self) -> None:
        reply = await self._try()
        if isinstance(reply, Setback):
            reply = await self._try_again(reply)
        self._member = None
        if self._alarm is not None:
            self._alarm.cancel()
        if self.cancelled:
            self._fell_silent()
            return
        # The breaker has heard of it by now: whoever gets the slot is let in by what it knows.
        if isinstance(self._body, ThreadedBody):
            self._body.when_idle(self._stopped)
        else:
            self._at_rest = True
            self._counter.free()
        self._reply(reply)
        # What leads back here: something that holds itself is freed late, and by a search.
        self.context = self._around.context

    async def _try_again(self, verdict: Reply | Setback) -> Reply:
        tries = 1
        while isinstance(verdict, Setback):
            failure = failure_of(verdict.error, step=self._request.step)
            pause = self._pause_after(tries, verdict)
            if pause is None:
                self._tell(verdict.error)
                return Failed(failure, unsure=self._unsure, retry_after=verdict.retry_after)
            emit(STEP_RETRIED, task_id=self._request.task_id, step=self._request.step, error=failure.message)
            await self._around.alarms.sleep(pause)
            if not self._counter.admit():
                return Deferred(failure, unsure=self._unsure)
            tries += 1
            verdict = await self._try()
        return verdict

    async def _try(self) -> Reply | Setback:
        """One call of the body: a reply, or the setback after which it may be called again."""
        try:
            # Decoded for every try: what a body does to its arguments stays its own.
            if self._request.undo:
                arguments = self._arguments_of_undo()
            else:
                arguments = self._step.signature.decode(self._request.input)
        except InvalidRequest as error:
            return self._failed_for_good(error)
        try:
            result = await self._body(**arguments)
        except Permanent as error:
            self._counter.answered()
            return self._failed_for_good(error, unsure=error.unsure)
        except asyncio.CancelledError as error:
            if self.cancelled:
                raise
            return self._service_failed(error)  # The body cancelled itself: a failure like any other.
        except SystemExit as error:
            return self._service_failed(raisable(error))
        except Exception as error:  # noqa: BLE001  A step may raise anything at all.
            return self._service_failed(error)
        self._counter.answered()
        if self._request.undo:
            return Completed(b"null")
        try:
            output = self._step.returns.encode(result)
            if len(output) > self._around.payload_bytes_max:
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
        if delay is None or delay >= self.remaining:
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
        self.cancelled = True
        if self._member is not None:
            self._member.cancel()

    def _fell_silent(self) -> None:
        if self._on_cancelled is None:
            self._counter.failed()  # No answer within the time it had: that is the service's failure.
        else:
            self._counter.withdrawn()
        if isinstance(self._body, ThreadedBody):
            self._body.when_idle(self._stopped)  # A thread may take its time to see that it was cancelled.
        else:
            self._stopped()

    def _stopped(self) -> None:
        """Nothing of it is at work any more."""
        self._at_rest = True
        self._counter.free()
        if self._on_cancelled is not None:
            self._on_cancelled()
