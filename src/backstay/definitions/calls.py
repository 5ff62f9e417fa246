"""What a workflow may call beside its steps, and what a step may ask about itself.

``now``, ``random`` and ``uuid4`` are recorded when they are first called and replay the same value
after a crash; ``sleep``, ``wait_for`` and ``start`` outlive the process.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Coroutine
from datetime import datetime
from typing import Any, Final, TypeVar

from backstay.definitions.ambient import Scope, StepContext, current_scope, step_context
from backstay.definitions.workflows import Workflow
from backstay.domain.durations import Duration, duration
from backstay.domain.task import check_id
from backstay.errors import InvalidRequest, NotInWorkflow

Result = TypeVar("Result")

SIGNAL_NAME_LENGTH_MAX: Final = 100


# These three are plain functions that return a coroutine: like a step, they get their key in the branch
# in which they are called, not in the one in which they are awaited.


def sleep(time: Duration) -> Coroutine[Any, Any, None]:
    """Sleep durably: the task leaves memory, and goes on at its time wherever a scheduler runs."""
    scope = _scope("sleep")
    return scope.run.sleep(scope.branch, duration(time, name="sleep"))


def wait_for(name: str, timeout: Duration | None = None) -> Coroutine[Any, Any, Any]:
    """Wait for a signal and return its payload; signals may come first and are kept in order.

    Raises TimeoutError when ``timeout`` passes first.
    """
    scope = _scope("wait_for")
    limit = None if timeout is None else duration(timeout, name="timeout")
    return scope.run.wait_for(scope.branch, check_signal_name(name), limit)


def start(workflow: Workflow[..., Result], *input: Any, id: str | None = None) -> Coroutine[Any, Any, Result]:
    """Run another workflow as a child of this task and return its result.

    The child is a task of its own, with an id made of its parent's and this call's key. It ends
    with its parent's hard end, and is cancelled and undone with its parent. Raises TaskFailed when
    it is undone or cancelled.
    """
    scope = _scope("start")
    child_id = None if id is None else check_id(id)
    return scope.run.start_child(scope.branch, workflow, input, child_id)


async def race(*contenders: Awaitable[Any]) -> Any:
    """Return what the first of ``contenders`` returns (or raise what it raises); cancel the others."""
    if not contenders:
        raise InvalidRequest("race needs at least one contender")
    _scope("race")
    tasks = [asyncio.ensure_future(contender) for contender in contenders]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return next(task for task in tasks if task in done).result()


def now() -> datetime:
    """The time, as it was when the workflow first asked here."""
    scope = _scope("now")
    return scope.run.value(scope.branch, "now", datetime, scope.run.now)


def random() -> float:
    """A number in [0, 1), the same at every replay."""
    scope = _scope("random")
    return scope.run.value(scope.branch, "random", float, scope.run.random)


def uuid4() -> uuid.UUID:
    """A random UUID, the same at every replay."""
    scope = _scope("uuid4")
    return scope.run.value(scope.branch, "uuid4", uuid.UUID, uuid.uuid4)


def current_step() -> StepContext:
    """What the running step, or undo, may know about itself."""
    context = step_context()
    if context is None:
        raise NotInWorkflow("current_step() is for the body of a step or an undo that an agent runs")
    return context


def check_signal_name(name: object) -> str:
    """Signal names are ids, shorter ones."""
    checked = check_id(name, name="signal name")
    if len(checked) > SIGNAL_NAME_LENGTH_MAX or ":" in checked:
        raise InvalidRequest(
            f"signal name {checked[:40]!r}… may have {SIGNAL_NAME_LENGTH_MAX} characters and no colon"
        )
    return checked


def _scope(call: str) -> Scope:
    scope = current_scope.get()
    if scope is None:
        raise NotInWorkflow(f"{call}() is for workflows; here use asyncio and the standard library")
    return scope
