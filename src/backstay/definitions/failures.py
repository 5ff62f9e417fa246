"""What ``@workflow.on_failure`` declares: the queue that hears of a failure, and what it is told."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from backstay.definitions.codec import encode
from backstay.errors import InvalidDefinition

FAILURE: Final = "failure"


class TaskFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task failed for good. ``agent`` is whose ``step`` it was, if it was one's."""

    task_id: str
    type: str
    message: str
    step: str | None = None
    agent: str | None = None
    permanent: bool = False


class FailureReport:
    """A function of what the workflow was given, and of the failure; it gives the body of a message."""

    def __init__(
        self, workflow: str, parameters: Mapping[str, Any], queue: str, function: Callable[..., Any]
    ) -> None:
        self.queue = queue
        self._function = function
        self._what = f"report {getattr(function, '__name__', function)!s} of workflow {workflow}"
        if inspect.iscoroutinefunction(function):
            raise InvalidDefinition(f"{self._what} must be a plain function: it only says what is told")
        found, wanted = set(inspect.signature(function).parameters), {*parameters, FAILURE}
        if found != wanted:
            raise InvalidDefinition(
                f"{self._what} takes ({', '.join(sorted(found))});"
                f" it must take the workflow's arguments and {FAILURE} ({', '.join(sorted(wanted))})"
            )

    def body(self, arguments: Mapping[str, Any], failure: TaskFailure) -> bytes:
        """Raises whatever the function raises, and InvalidInput if what it gives has no JSON form."""
        return encode(self._function(**arguments, failure=failure), self._what)
