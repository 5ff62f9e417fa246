"""The record of a task, and what may be asked of one."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from backstay.domain.states import TaskState
from backstay.domain.step import Failure, StepRecord
from backstay.domain.text import shortened
from backstay.errors import InvalidId

ID_LENGTH_MAX: Final = 200
ATTRIBUTES_MAX: Final = 32
#: Of a name, and of a value.
ATTRIBUTE_LENGTH_MAX: Final = 200
#: Names of workflows and agents that begin like this are built in.
OURS: Final = "backstay."
_ID: Final = re.compile(r"[A-Za-z0-9._:@~-]{1,200}")


class Request(StrEnum):
    """What an operator asked of a task while a scheduler held it; the holder, or the next one, obeys."""

    CANCEL = "cancel"
    UNDO = "undo"


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One run of a workflow. ``key`` is the store's own small number, ``id`` the caller's name."""

    key: int
    id: str
    workflow: str
    version: int
    state: TaskState
    input: bytes
    output: bytes | None = None
    error: Failure | None = None
    complete_by: datetime | None = None
    hard_end: datetime | None = None
    locked_by: str | None = None
    lock_number: int = 0
    failure_count: int = 0
    crash_count: int = 0
    # When a parked task is looked at again; None: not before somebody calls it.
    wake_at: datetime | None = None
    parked: bool = False
    request: Request | None = None
    reply_to: str | None = None
    attributes: dict[str, str] = {}
    # The task that started this one, and the key of its journal entry that waits for it.
    parent_key: int | None = None
    parent_step: str | None = None
    created_at: datetime
    updated_at: datetime


class NewTask(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A task as it enters the store, with the steps of its plan (if the workflow declares one)."""

    id: str
    workflow: str
    version: int
    input: bytes
    hard_end: datetime | None = None
    reply_to: str | None = None
    attributes: dict[str, str] = {}
    parent_key: int | None = None
    parent_step: str | None = None
    plan: tuple[StepRecord, ...] = ()


def first_record(key: int, new: NewTask, now: datetime) -> TaskRecord:
    """The record of a task that has just been entered."""
    return TaskRecord(
        key=key,
        id=new.id,
        workflow=new.workflow,
        version=new.version,
        state=TaskState.PENDING,
        input=new.input,
        hard_end=new.hard_end,
        reply_to=new.reply_to,
        attributes=new.attributes,
        parent_key=new.parent_key,
        parent_step=new.parent_step,
        created_at=now,
        updated_at=now,
    )


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """Something told to a task from outside; consumed first-in-first-out per name."""

    number: int
    name: str
    payload: bytes


def is_id(value: str) -> bool:
    return _ID.fullmatch(value) is not None


def check_id(value: object, *, name: str = "id") -> str:
    """Return ``value`` if it is a well-formed id; the error names the field and the pattern."""
    if not isinstance(value, str) or not is_id(value):
        raise InvalidId(
            f"{name} is {shortened(value)}; an id has 1 to {ID_LENGTH_MAX} characters"
            " out of letters, digits and . _ : @ ~ -"
        )
    return value


def child_id(parent_id: str, key: str) -> str:
    """The id of the child that ``parent_id`` starts under the journal key ``key``."""
    return derived_id(parent_id, key)


def derived_id(id: str, rest: str) -> str:
    """``id:rest``, or, where that is too long for an id, as much of ``id`` as fits and a digest."""
    derived = f"{id}:{rest}"
    if len(derived) <= ID_LENGTH_MAX:
        return derived
    digest = hashlib.sha256(derived.encode()).hexdigest()
    return f"{id[: ID_LENGTH_MAX - len(digest) - 1]}:{digest}"
