"""The declaration behind ``@app.workflow``."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property, update_wrapper
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar

from backstay.definitions.agents import Step
from backstay.definitions.codec import Signature, TypeCodec, type_hints
from backstay.definitions.failures import FailureReport
from backstay.definitions.policies import policy
from backstay.domain.durations import Duration, duration
from backstay.domain.journal import Branch
from backstay.domain.recovery import Recovery
from backstay.domain.states import StepState
from backstay.domain.step import StepRecord
from backstay.domain.task import check_id
from backstay.errors import InvalidDefinition

_SHORTEST: Final = timedelta(milliseconds=1)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Report = TypeVar("Report", bound=Callable[..., Any])


class Named(Protocol):
    """What has a name: a queue as an application holds it."""

    @property
    def name(self) -> str: ...


class Workflow(Generic[Parameters, Result]):
    """An ``async def`` that awaits steps. Called directly it is the plain function."""

    def __init__(
        self,
        function: Callable[Parameters, Awaitable[Result]],
        *,
        name: str | None,
        complete_by: Duration | None,
        version: int,
        recovery: Recovery | None,
        plan: Sequence[Step[Any, Any]],
        namespace: Mapping[str, Any],
    ) -> None:
        update_wrapper(self, function)
        self.name = check_id(function.__name__ if name is None else name, name="name of the workflow")
        if not inspect.iscoroutinefunction(function):
            raise InvalidDefinition(f"workflow {self.name} must be an async def")
        if version < 1:
            raise InvalidDefinition(f"workflow {self.name}: version is {version}; it must be at least 1")
        self.function = function
        self.version = version
        # None: as long as the setting says, which is known only when the app runs.
        self.complete_by = (
            None if complete_by is None else duration(complete_by, name="complete_by", least=_SHORTEST)
        )
        self.recovery = policy(recovery, Recovery, "recovery") or Recovery()
        self.plan = _checked_plan(plan, self.name)
        #: Who is told when a task of this workflow fails for good, and what.
        self.report: FailureReport | None = None
        self._namespace = namespace

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Awaitable[Result]:
        return self.function(*args, **kwargs)

    def on_failure(self, queue: Named | str) -> Callable[[Report], Report]:
        """Have a message sent to ``queue`` when a task fails for good, by the commit that records it.

        That is the commit with which its undo begins, or with which it stops in error. The function is given
        what the workflow was given and, by keyword, ``failure``; what it returns is the body. It should do
        nothing else: it is called before the commit, and again where that had to be repeated.
        """
        name = queue if isinstance(queue, str) else queue.name

        def declare(function: Report) -> Report:
            if self.report is not None:
                raise InvalidDefinition(f"workflow {self.name} reports its failures already")
            taken = inspect.signature(self.function).parameters
            self.report = FailureReport(self.name, taken, check_id(name, name="name of the queue"), function)
            return function

        return declare

    # Types are looked at when they are first needed: a class may be declared below its use.

    @cached_property
    def signature(self) -> Signature:
        return Signature(self.function, f"workflow {self.name}", hints=self._hints)

    @cached_property
    def returns(self) -> TypeCodec:
        return TypeCodec(self._hints.get("return", Any), f"result of workflow {self.name}")

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return type_hints(self.function, f"workflow {self.name}", self._namespace)

    def planned_steps(self) -> tuple[StepRecord, ...]:
        """The steps of the declared plan as they are recorded with a submission."""
        if not self.plan:
            return ()
        branch = Branch()
        return tuple(
            StepRecord(
                task_key=0,
                key=branch.key(step.name),
                agent=step.agent.name,
                operation=step.name,
                state=StepState.PENDING,
            )
            for step in self.plan
        )


def _checked_plan(plan: Sequence[object], workflow: str) -> tuple[Step[Any, Any], ...]:
    steps = tuple(step for step in plan if isinstance(step, Step))
    if len(steps) != len(plan):
        raise InvalidDefinition(f"plan of workflow {workflow} must be a list of steps")
    return steps
