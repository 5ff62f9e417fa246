"""Rows to records and back. The only place that knows how SQLite keeps instants and JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from backstay.domain.states import StepState, TaskState
from backstay.domain.step import Failure, StepKind, StepRecord, UndoKind
from backstay.domain.task import Request, TaskRecord
from backstay.store.base import InstanceRecord

Row = tuple[Any, ...]
LoadPayload = Callable[[int, str], bytes]
SavePayload = Callable[[int, str, bytes], None]

CLAIM_CHECK: Final = b"@"  # No JSON text begins with it.

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_encode: Final = msgspec.json.Encoder().encode
_decode_failure: Final = msgspec.json.Decoder(Failure).decode
_decode_attributes: Final = msgspec.json.Decoder(dict[str, str]).decode
_decode_runs: Final = msgspec.json.Decoder(tuple[tuple[str, int], ...]).decode

# Looking a word up is several times faster than calling the enum.
_TASK_STATES: Final = {state.value: state for state in TaskState}
_STEP_STATES: Final = {state.value: state for state in StepState}
_KINDS: Final = {kind.value: kind for kind in StepKind}
_UNDOS: Final = {kind.value: kind for kind in UndoKind}


def to_micros(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - _EPOCH) // _MICROSECOND


def to_instant(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)


def instant(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def failure_bytes(failure: Failure | None) -> bytes | None:
    return None if failure is None else _encode(failure)


class Payloads:
    """The claim check: values above the inline limit go to a table of their own, unseen by all others."""

    def __init__(self, inline_bytes_max: int, *, load: LoadPayload, save: SavePayload) -> None:
        self._inline_bytes_max = inline_bytes_max
        self._load = load
        self._save = save

    def check_in(self, task_key: int, value: bytes | None) -> bytes | None:
        if value is None or len(value) <= self._inline_bytes_max:
            return value
        digest = hashlib.sha256(value).hexdigest()
        self._save(task_key, digest, value)
        return CLAIM_CHECK + digest.encode()

    def check_out(self, task_key: int, value: bytes | None) -> bytes | None:
        if value is None or not value.startswith(CLAIM_CHECK):
            return value
        return self._load(task_key, value[1:].decode())


def task_record(row: Row, payloads: Payloads) -> TaskRecord:
    key = row[0]
    return TaskRecord(
        key=key,
        id=row[1],
        workflow=row[2],
        version=row[3],
        state=_TASK_STATES[row[4]],
        input=payloads.check_out(key, row[5]) or b"",
        output=payloads.check_out(key, row[6]),
        error=None if row[7] is None else _decode_failure(row[7]),
        complete_by=to_instant(row[8]),
        hard_end=to_instant(row[9]),
        locked_by=row[10],
        lock_number=row[11],
        failure_count=row[12],
        crash_count=row[13],
        wake_at=to_instant(row[14]),
        parked=bool(row[15]),
        request=None if row[16] is None else Request(row[16]),
        reply_to=row[17],
        attributes=_decode_attributes(row[18]),
        parent_key=row[19],
        parent_step=row[20],
        created_at=instant(row[21]),
        updated_at=instant(row[22]),
    )


def task_row(task: TaskRecord, payloads: Payloads) -> Row:
    """The parameters of ``put_task``."""
    return (
        task.key,
        task.state,
        payloads.check_in(task.key, task.output),
        failure_bytes(task.error),
        to_micros(task.complete_by),
        task.locked_by,
        task.lock_number,
        task.failure_count,
        task.crash_count,
        to_micros(task.wake_at),
        task.parked,
        to_micros(task.updated_at),
        task.request,
    )


def step_record(row: Row, payloads: Payloads) -> StepRecord:
    task_key = row[0]
    return StepRecord(
        task_key=task_key,
        key=row[1],
        kind=_KINDS[row[2]],
        agent=row[3],
        operation=row[4],
        state=_STEP_STATES[row[5]],
        attempt=row[6],
        failure_count=row[7],
        complete_by=to_instant(row[8]),
        input=payloads.check_out(task_key, row[9]),
        output=payloads.check_out(task_key, row[10]),
        error=None if row[11] is None else _decode_failure(row[11]),
        started_at=to_instant(row[12]),
        ended_at=to_instant(row[13]),
        position=row[14],
        undo=None if row[15] is None else _UNDOS[row[15]],
        undo_attempt=row[16],
        undo_failures=row[17],
        pivot=bool(row[18]),
        unsure=bool(row[19]),
    )


def step_row(step: StepRecord, payloads: Payloads) -> Row:
    """The parameters of ``put_step``."""
    task_key = step.task_key
    return (
        task_key,
        step.key,
        step.kind,
        step.agent,
        step.operation,
        step.state,
        step.attempt,
        step.failure_count,
        to_micros(step.complete_by),
        payloads.check_in(task_key, step.input),
        payloads.check_in(task_key, step.output),
        failure_bytes(step.error),
        to_micros(step.started_at),
        to_micros(step.ended_at),
        step.position,
        step.undo,
        step.undo_attempt,
        step.undo_failures,
        step.pivot,
        step.unsure,
    )


def instance_record(row: Row) -> InstanceRecord:
    return InstanceRecord(
        id=row[0],
        epoch=row[1],
        live=bool(row[2]),
        host=row[3],
        pid=row[4],
        runs=_decode_runs(row[5]),
        started_at=instant(row[6]),
        heartbeat_at=instant(row[7]),
    )
