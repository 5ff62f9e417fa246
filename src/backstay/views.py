"""Tasks and steps as people and programs outside see them: the same shape in Python, JSON and HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from backstay.domain.step import Failure, StepRecord
from backstay.domain.task import TaskRecord


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task, with its values decoded. In a listing they are UNSET, and absent from the JSON."""

    id: str
    workflow: str
    version: int
    state: str
    input: Any = msgspec.UNSET
    output: Any = msgspec.UNSET
    error: Failure | None
    complete_by: datetime | None
    hard_end: datetime | None
    locked_by: str | None
    failure_count: int
    attributes: dict[str, str]
    created_at: datetime
    updated_at: datetime


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a task, with its values decoded."""

    key: str
    agent: str | None
    operation: str
    state: str
    attempt: int
    failure_count: int
    complete_by: datetime | None
    input: Any
    output: Any
    error: Failure | None
    started_at: datetime | None
    ended_at: datetime | None


def listed_view(task: TaskRecord) -> Task:
    return Task(
        id=task.id,
        workflow=task.workflow,
        version=task.version,
        state=task.state,
        error=task.error,
        complete_by=task.complete_by,
        hard_end=task.hard_end,
        locked_by=task.locked_by,
        failure_count=task.failure_count,
        attributes=task.attributes,
        created_at=task.created_at,
        updated_at=task.updated_at,
    )


def task_view(task: TaskRecord) -> Task:
    return msgspec.structs.replace(listed_view(task), input=_value(task.input), output=_value(task.output))


def step_view(step: StepRecord) -> Step:
    return Step(
        key=step.key,
        agent=step.agent,
        operation=step.operation,
        state=step.state,
        attempt=step.attempt,
        failure_count=step.failure_count,
        complete_by=step.complete_by,
        input=_value(step.input),
        output=_value(step.output),
        error=step.error,
        started_at=step.started_at,
        ended_at=step.ended_at,
    )


def _value(data: bytes | None) -> Any:
    return None if data is None else msgspec.json.decode(data)
