"""One attempt of one step: try, wait, try again, and reply; or fall silent at the complete-by."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from backstay.agents.body import ThreadedBody, raisable
from backstay.agents.counter import Counter
from backstay.clock import Alarm, Alarms, Clock
from backstay.definitions.agents import Step
from backstay.definitions.ambient import StepContext, running_step
from backstay.definitions.codec import check_size
from backstay.domain.instants import instant
from backstay.domain.pace import Call
from backstay.domain.retry import RETRY_AFTER_MAX, Retry
from backstay.domain.step import failure_of
from backstay.errors import InvalidDefinition, InvalidRequest, Permanent, Transient
from backstay.messaging.wire import Completed, Deferred, Failed, Reply, Request
from backstay.observe import LATE_REPLY, STEP_RETRIED, emit, log
from backstay.tracing import Span, Tracing


class Rest:
    """How many attempts wait for something outside, and who wants to hear when one begins to."""

    __slots__ = ("begun", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.begun: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every attempt of a process shares."""

    clock: Clock
    alarms: Alarms
    random: Random
    payload_bytes_max: int
    # What bodies find set when they begin. Not that of whoever sends a request: that may be a workflow.
    context: Context
    rest: Rest
    tracing: Tracing | None


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
        "_began_at",
        "_call",
        "_counter",
        "_deadline",
        "_member",
        "_on_cancelled",
        "_reply",
        "_request",
        "_span",
        "_step",
        "_threads",
        "_unsure",
        "cancelled",
        "context",
    )

    context: Context  # made when the attempt begins
    _began_at: float  # of the call that is under way, or was the last

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
        self._call: Call | None = None  # The call of the body that is under way, if its time is kept.
        self._unsure = False  # Some try ended without a verdict of the service.
        self._on_cancelled: Callable[[], None] | None = None
        self._alarm: Alarm | None = None
        self._member: asyncio.Task[None] | None = None
        self._threads: ThreadedBody | None = None
        self._span: Span | None = None
        self._deadline = around.clock.monotonic() + request.remaining_seconds

    @property
    def remaining(self) -> timedelta:
        return timedelta(seconds=max(0.0, self._deadline - self._around.clock.monotonic()))

    def seen_by_body(self) -> StepContext:
        request = self._request
        return StepContext(
            task_id=request.task_id,
            key=request.step,
            attempt=request.attempt,
            idempotency_key=request.idempotency_key,
            complete_by=instant(request.complete_by),
            outcome=request.outcome,
            traceparent=request.traceparent if self._span is None else self._span.traceparent,
            _running=self,
        )

    def cancel(self, ended: Callable[[], None]) -> None:
        """Nobody waits any more; ``ended`` is called once the body is known to have stopped."""
        self._on_cancelled = ended
        if self._at_rest:
            ended()  # It fell silent by itself, a moment ago.
        else:
            self._abandon()

    def overdue(self, told: Callable[[Reply | None, bool], None]) -> None:
        """It has fallen silent, or is about to; ``told`` hears that the body may have begun."""
        told(None, True)  # noqa: FBT003  No reply, and it may have.

    def leave(self) -> None:
        """Nobody else can follow it: stop."""
        self.cancel(lambda: None)

    # What is called, and with what

    def _retry(self) -> Retry:
        undo = self._step.undo_of
        return undo.retry if self._request.undo and undo is not None else self._step.retry

    def _arguments(self) -> dict[str, Any]:
        """Decoded for every try: what a body does to its arguments stays its own."""
        arguments = self._step.signature.decode(self._request.input)
        undo = self._step.undo_of
        if self._request.undo and undo is not None and undo.takes_result:
            result = self._request.result
            arguments["result"] = None if result is None else self._step.returns.decode(result)
        return arguments

    def _body(self, arguments: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        declared = self._step if not self._request.undo else self._step.undo_of
        if declared is None:
            raise InvalidDefinition(f"step {self._step.name} declares no undo")
        if declared.is_async:
            return declared.function(**arguments)  # type: ignore[no-any-return]
        self._threads = self._threads or ThreadedBody(declared.function, self.context)
        return self._threads(**arguments)

    # For the crew

    def begin(self, member: asyncio.Task[None]) -> Coroutine[Any, Any, None] | None:
        """Go as far as that goes without waiting: for a body that never waits, to the end."""
        around = self._around
        self._began_at = now = around.clock.monotonic()
        if self.cancelled or now >= self._deadline:
            self.cancelled = True  # Past its complete-by nothing is started.
            self._fell_silent()
            return None
        step = self._step
        straight = step.is_async and not self._request.undo
        self._member = member
        self.context = context = around.context.copy()
        context.run(running_step.set, self)
        if around.tracing is not None:
            self._span = self._begun_span(around.tracing)
            context.run(self._span.enter)
        try:
            arguments = step.signature.decode(self._request.input) if straight else self._arguments()
        except InvalidRequest as error:
            self._end(self._failed_for_good(error))
            return None
        verdict: Reply | Setback
        self._call = self._counter.began()
        try:
            body = step.function(**arguments) if straight else self._body(arguments)
            awaited = context.run(body.send, None)
        except StopIteration as done:
            verdict = self._returned(done.value)
        except BaseException as error:  # noqa: BLE001  A step may raise anything at all; it is judged.
            verdict = self._judged(error)
        else:
            return self._wait(body, awaited)
        if isinstance(verdict, Setback):
            return self._recover(verdict)
        self._end(verdict)
        return None

    def _begun_span(self, tracing: Tracing) -> Span:
        request = self._request
        undo = " undo" if request.undo else ""
        return tracing.begin(
            f"agent {request.operation}{undo}",
            "SERVER",
            parent=request.traceparent,
            task_id=request.task_id,
            step=request.step,
            agent=request.agent,
            attempt=request.attempt,
        )

    def waits(self) -> None:
        around = self._around
        around.rest.waiting += 1
        around.rest.begun()
        # Set no sooner: most steps that never wait are done before an alarm could ring.
        self._alarm = self._around.alarms.after(
            max(0.0, self._deadline - self._around.clock.monotonic()), self._abandon
        )

    def stopped(self) -> None:
        self.cancelled = True
        self._member = None
        self._waits_no_more()
        self._fell_silent()

    def _waits_no_more(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
            self._around.rest.waiting -= 1

    # The course of an attempt that does not end at once

    async def _wait(self, body: Coroutine[Any, Any, Any], awaited: Any) -> None:
        """A body that has begun to wait."""
        await self._recover(await self._verdict(_resumed(body, awaited)))

    async def _recover(self, verdict: Reply | Setback) -> None:
        """Try again after a setback, as often as that is allowed."""
        tries = 1
        while isinstance(verdict, Setback):
            failure = failure_of(verdict.error, step=self._request.step)
            pause = self._pause_after(tries, verdict)
            if pause is None:
                self._tell(verdict.error)
                verdict = Failed(failure, unsure=self._unsure, retry_after=verdict.retry_after)
                break
            emit(STEP_RETRIED, task_id=self._request.task_id, step=self._request.step, error=failure.message)
            if self._span is not None:
                self._span.note(STEP_RETRIED, tries=tries, error=failure.type)
            await self._around.alarms.sleep(pause)
            tries += 1
            verdict = await self._try() if self._counter.admit() else Deferred(failure, unsure=self._unsure)
        self._end(verdict)

    async def _try(self) -> Reply | Setback:
        """One more call of the body."""
        try:
            arguments = self._arguments()
        except InvalidRequest as error:
            return self._failed_for_good(error)
        self._began_at = self._around.clock.monotonic()
        self._call = self._counter.began()
        return await self._verdict(self._body(arguments))

    async def _verdict(self, body: Awaitable[Any]) -> Reply | Setback:
        """What a call of the body came to: a reply, or the setback after which it may be called again."""
        try:
            result = await body
        except BaseException as error:  # noqa: BLE001  As above.
            return self._judged(error)
        return self._returned(result)

    def _returned(self, result: Any) -> Reply:
        now = self._took()
        if self._counter.judges:
            self._counter.answered(self._ended(), self._kind(), now)
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

    def _judged(self, error: BaseException) -> Reply | Setback:
        match error:
            case Permanent():
                now = self._took()
                self._counter.answered(self._ended(), f"{self._kind()} refused", now)
                return self._failed_for_good(error, unsure=error.unsure)
            case asyncio.CancelledError() if not self.cancelled:
                return self._service_failed(error)  # The body cancelled itself: a failure like any other.
            case SystemExit():
                return self._service_failed(raisable(error))
            case Exception():
                return self._service_failed(error)
            case _:
                raise error

    def _took(self) -> float:
        """Have it known how long the call took; it is over by now, which comes out."""
        now = self._around.clock.monotonic()
        self._counter.took(now - self._began_at)
        return now

    def _ended(self) -> Call | None:
        """The call that was under way, once: whatever comes after it is another."""
        call, self._call = self._call, None
        return call

    def _kind(self) -> str:
        """What takes the service about as long each time."""
        return f"{self._step.name} undo" if self._request.undo else self._step.name

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
        self._counter.failed(self._ended(), error, self._took())
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

    def _end(self, reply: Reply) -> None:
        self._member = None
        if self._span is not None:
            self._end_span(None if isinstance(reply, Completed) else reply.error.type)
        # What leads back here: something that holds itself is freed late, and by a search.
        self.context = self._around.context
        if self._alarm is not None:
            self._waits_no_more()
        # A body that holds up the event loop lets no alarm ring: the clock has the last word.
        if not self.cancelled and self._around.clock.monotonic() >= self._deadline:
            self._held_up()
        if self.cancelled:
            self._fell_silent()
            return
        # The breaker has heard of it by now: whoever gets the slot is let in by what it knows.
        if self._threads is None:
            self._at_rest = True
            self._counter.free()
        else:
            self._threads.when_idle(self._stopped)
        self._reply(reply)

    def _held_up(self) -> None:
        """It comes back past its complete-by, and nothing could stop it before."""
        self.cancelled = True
        emit(LATE_REPLY, task_id=self._request.task_id, step=self._request.step)
        log.warning(
            "step %s of task %s came back past its complete-by, before the event loop could stop it;"
            " a step that blocks is declared with `def` and runs in a thread",
            self._request.step,
            self._request.task_id,
        )

    def _abandon(self) -> None:
        """The complete-by has passed, or nobody waits: stop what can be stopped and say nothing."""
        self.cancelled = True
        if self._member is not None:
            self._member.cancel()

    def _end_span(self, error: str | None) -> None:
        if self._span is not None:
            self._span.end(error=error)
            self._span = None

    def _fell_silent(self) -> None:
        self._end_span("Expired" if self._on_cancelled is None else "Cancelled")
        if self._on_cancelled is None:
            # No answer within the time it had: that is the service's failure.
            self._counter.failed(self._ended(), None, self._took())
        else:
            self._counter.withdrawn(self._ended())
        if self._threads is None:
            self._stopped()
        else:
            self._threads.when_idle(self._stopped)  # A thread may take its time to see that it was cancelled.

    def _stopped(self) -> None:
        """Nothing of it is at work any more."""
        self._at_rest = True
        self._counter.free()
        if self._on_cancelled is not None:
            self._on_cancelled()


@types.coroutine
def _resumed(body: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, Any, Any]:
    """The rest of ``body``, which waits for ``awaited``."""
    while True:
        try:
            yield awaited
        except BaseException as error:  # noqa: BLE001  It is the body's, whatever it is.
            try:
                awaited = body.throw(error)
            except StopIteration as done:
                return done.value
        else:
            return (yield from body)
