"""What a scheduler asks of an agent, what the agent replies, and the form of both between processes.

Inside a process a ``Request`` is handed over as it is. To an agent in another process it travels as one
JSON object, and so does the reply; any language can read them. A request:

    {"task_id": "order-17", "step": "charge:1", "agent": "bank", "operation": "charge", "attempt": 1,
     "undo": false, "idempotency_key": "order-17/charge:1", "input": {"euros": 30},
     "complete_by": "2026-01-31T12:00:05Z", "remaining_seconds": 5.0, "traceparent": null,
     "outcome": null, "result": null}

``remaining_seconds`` is what remained when it was sent; whoever takes it up counts from what the store says
then, on a clock that never jumps. ``outcome`` and ``result`` tell an undo what is known of the step. A reply
is one of

    {"type": "completed", "output": {"receipt": 4}}
    {"type": "failed", "error": {"type": "Declined", "message": "no money", "step": "charge:1",
     "permanent": true}, "unsure": false, "retry_after": null}
    {"type": "deferred", "error": {…}, "unsure": false}
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeGuard

import msgspec

from backstay.domain.instants import instant, micros
from backstay.domain.states import StepState
from backstay.domain.step import Failure, Outcome, StepRecord

#: The attribute of a task from which its requests take their trace context (W3C Trace Context).
TRACEPARENT: Final = "traceparent"
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def is_traceparent(text: object) -> TypeGuard[str]:
    """Whether it has the form of a trace context; it comes from outside, and may be anything."""
    return isinstance(text, str) and _TRACEPARENT.fullmatch(text) is not None


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Do this step, or undo it. ``idempotency_key`` is the same for every attempt of either."""

    task_id: str
    step: str
    agent: str
    operation: str
    attempt: int
    input: bytes
    # In whole microseconds since 1970.
    complete_by: int
    # Beside the instant: hosts may disagree about what time it is, not about how long a second lasts.
    remaining_seconds: float
    undo: bool = False
    outcome: Outcome | None = None
    result: bytes | None = None
    traceparent: str | None = None
    # The store's own number of the task, by which a request is known between processes.
    task_key: int = 0

    @property
    def idempotency_key(self) -> str:
        return f"{self.task_id}/{self.step}/undo" if self.undo else f"{self.task_id}/{self.step}"

    @property
    def reference(self) -> Reference:
        return Reference(self.task_key, self.step, self.undo, self.attempt)


class Reference(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which request: one attempt of a step, or of its undo. What is said of another attempt says nothing."""

    task_key: int
    step: str
    undo: bool
    attempt: int

    def is_current(self, step: StepRecord) -> bool:
        """Whether ``step`` still waits for what this request comes to."""
        if self.undo:
            return step.state is StepState.UNDOING and step.undo_attempt == self.attempt
        return step.state is StepState.RUNNING and step.attempt == self.attempt


class Completed(msgspec.Struct, frozen=True, gc=False):
    """It is done."""

    output: bytes


class Failed(msgspec.Struct, frozen=True):
    """It is not done, or nobody knows: ``unsure`` when some try ended without the service's verdict."""

    error: Failure
    unsure: bool
    # How long the service asked to be left alone.
    retry_after: timedelta | None = None


class Deferred(msgspec.Struct, frozen=True):
    """The breaker opened before the tries were used up; ask again later. No failure is counted."""

    error: Failure
    unsure: bool


Reply = Completed | Failed | Deferred


class Lost(msgspec.Struct, frozen=True):
    """Nobody will reply any more: the process that worked on it died, or (not ``crashed``) was stopped."""

    crashed: bool


class BrokenOff(StrEnum):
    """How an agent host ended that had taken up a request and not replied."""

    DIED = "died"
    STOPPED = "stopped"


class RequestStanding(msgspec.Struct, frozen=True, kw_only=True):
    """How a request stands in the store."""

    reference: Reference
    complete_by: datetime
    claimed_by: str | None = None
    # Nobody waits for it any more; whoever works on it is to stop.
    withdrawn: bool = False
    broken_off: BrokenOff | None = None
    reply: bytes | None = None

    def answer(self) -> Reply | Lost | None:
        """What it came to; ``None`` while that is open."""
        if self.reply is not None:
            return reply_of(self.reply)
        return None if self.broken_off is None else Lost(crashed=self.broken_off is BrokenOff.DIED)

    def is_live(self, now: datetime) -> bool:
        """Whether a reply may still come."""
        return self.broken_off is None and not self.withdrawn and now < self.complete_by


# Between processes


class _RequestDocument(msgspec.Struct, kw_only=True):
    task_id: str
    step: str
    agent: str
    operation: str
    attempt: int
    undo: bool
    idempotency_key: str
    input: msgspec.Raw
    complete_by: datetime
    remaining_seconds: float
    traceparent: str | None
    outcome: Outcome | None
    result: msgspec.Raw


class _Completed(msgspec.Struct, tag="completed"):
    output: msgspec.Raw


class _Failed(msgspec.Struct, tag="failed"):
    error: Failure
    unsure: bool
    retry_after: float | None = None


class _Deferred(msgspec.Struct, tag="deferred"):
    error: Failure
    unsure: bool


_NULL: Final = b"null"
_encode: Final = msgspec.json.Encoder().encode
_decode_request: Final = msgspec.json.Decoder(_RequestDocument).decode
_decode_reply: Final = msgspec.json.Decoder(_Completed | _Failed | _Deferred).decode


def request_document(request: Request) -> bytes:
    """``request`` as it travels."""
    return _encode(
        _RequestDocument(
            task_id=request.task_id,
            step=request.step,
            agent=request.agent,
            operation=request.operation,
            attempt=request.attempt,
            undo=request.undo,
            idempotency_key=request.idempotency_key,
            input=msgspec.Raw(request.input),
            complete_by=instant(request.complete_by),
            remaining_seconds=request.remaining_seconds,
            traceparent=request.traceparent,
            outcome=request.outcome,
            result=msgspec.Raw(_NULL if request.result is None else request.result),
        )
    )


def request_of(document: bytes, *, task_key: int, remaining_seconds: float) -> Request:
    """The request that travelled; so much remains of its time now."""
    found = _decode_request(document)
    result = bytes(found.result)
    return Request(
        task_id=found.task_id,
        step=found.step,
        agent=found.agent,
        operation=found.operation,
        attempt=found.attempt,
        input=bytes(found.input),
        complete_by=micros(found.complete_by),
        remaining_seconds=min(found.remaining_seconds, remaining_seconds),
        undo=found.undo,
        outcome=found.outcome,
        # A step that is known to have given nothing gave null; of one whose outcome is unknown there is none.
        result=result if found.outcome is Outcome.COMPLETED else None,
        traceparent=found.traceparent,
        task_key=task_key,
    )


def reply_document(reply: Reply) -> bytes:
    """``reply`` as it travels."""
    match reply:
        case Completed():
            return _encode(_Completed(msgspec.Raw(reply.output)))
        case Failed():
            pause = reply.retry_after
            return _encode(
                _Failed(reply.error, reply.unsure, None if pause is None else pause.total_seconds())
            )
        case Deferred():
            return _encode(_Deferred(reply.error, reply.unsure))


def reply_of(document: bytes) -> Reply:
    """The reply that travelled. One that cannot be read is a failure of whoever sent it."""
    try:
        found: _Completed | _Failed | _Deferred = _decode_reply(document)
    except msgspec.DecodeError as unreadable:
        message = f"the reply of the agent cannot be read: {unreadable}"
        return Failed(Failure("InvalidReply", message), unsure=True)
    match found:
        case _Completed():
            return Completed(bytes(found.output))
        case _Failed():
            pause = None if found.retry_after is None else timedelta(seconds=found.retry_after)
            return Failed(found.error, found.unsure, pause)
        case _Deferred():
            return Deferred(found.error, found.unsure)
