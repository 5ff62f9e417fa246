"""The declarations behind ``app.agent``, ``@agent.step`` and ``@step.undo``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from functools import cached_property, update_wrapper
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from backstay.definitions.ambient import current_scope
from backstay.definitions.codec import Function, Signature, TypeCodec, type_hints
from backstay.definitions.policies import policy
from backstay.domain.breaker import Breaker
from backstay.domain.durations import Duration, duration
from backstay.domain.pace import Pace
from backstay.domain.retry import Retry
from backstay.domain.step import UndoKind
from backstay.domain.task import check_id
from backstay.errors import InvalidDefinition, InvalidId, InvalidRequest

CONCURRENCY_MAX: Final = 10_000
_SHORTEST: Final = timedelta(milliseconds=1)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _optional_duration(value: Duration | None) -> timedelta | None:
    """A complete-by that is not declared is the setting's, which is known only when the app runs."""
    return None if value is None else duration(value, name="complete_by", least=_SHORTEST)


def _step_name(name: str) -> str:
    """A step's name is part of its key, ``[branch.]name:ordinal``, and must not look like the rest of it."""
    if "." in check_id(name, name="name of the step") or ":" in name:
        raise InvalidId(f"name of the step is {name!r}; it must hold neither a dot nor a colon")
    return name


def _pace(agent: str, *, pace: Pace | bool | None, concurrency: int | None) -> Pace | None:
    """What ``pace=…`` asks for. It moves between two bounds, and ``concurrency`` is the upper one."""
    if not pace:
        return None
    chosen = Pace() if pace is True else pace
    if concurrency is None:
        raise InvalidRequest(
            f"agent {agent!r} has a pace and no concurrency; say with concurrency=… what it may reach at most"
        )
    if chosen.least > concurrency:
        raise InvalidRequest(
            f"Pace.least is {chosen.least}; it must not be more than concurrency, which is {concurrency}"
        )
    return chosen


class Undo:
    """How a step is undone: a function of the step's arguments and its result, or a person."""

    def __init__(
        self,
        step: Step[Any, Any],
        function: Function,
        *,
        manual: bool,
        retry: Retry | None,
        complete_by: Duration | None,
    ) -> None:
        self.name = function.__name__
        self.function = function
        self.kind = UndoKind.MANUAL if manual else UndoKind.AUTOMATIC
        self.is_async = inspect.iscoroutinefunction(function)
        self._own_retry = policy(retry, Retry, "retry")
        self._step = step
        self.complete_by = _optional_duration(complete_by)
        if not manual:
            self._check_signature()

    @property
    def retry(self) -> Retry:
        return self._own_retry or self._step.agent.retry

    @property
    def takes_result(self) -> bool:
        return "result" in inspect.signature(self.function).parameters

    def _check_signature(self) -> None:
        wanted = set(inspect.signature(self._step.function).parameters)
        found = set(inspect.signature(self.function).parameters) - {"result"}
        if found != wanted:
            raise InvalidDefinition(
                f"undo {self.name} of step {self._step.name} takes ({', '.join(sorted(found))});"
                f" it must take the step's arguments ({', '.join(sorted(wanted))}) and, by keyword, result"
            )


class Step(Generic[Parameters, Result]):
    """One operation of an agent. Inside a workflow a call is recorded; elsewhere it is the plain function."""

    def __init__(
        self,
        agent: Agent,
        function: Callable[Parameters, Result],
        *,
        name: str | None,
        complete_by: Duration | None,
        retry: Retry | None,
        idempotent: bool,
        pivot: bool,
        namespace: Mapping[str, Any],
    ) -> None:
        update_wrapper(self, function)
        self.agent = agent
        self.function = function
        self.name = _step_name(function.__name__ if name is None else name)
        self.is_async = inspect.iscoroutinefunction(function)
        self.complete_by = _optional_duration(complete_by) or agent.complete_by
        self._own_retry = policy(retry, Retry, "retry")
        self.idempotent = idempotent
        self.pivot = pivot
        self.undo_of: Undo | None = None
        self.undo_kind: UndoKind | None = None
        self._namespace = namespace

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        scope = current_scope.get()
        if scope is None:
            return self.function(*args, **kwargs)
        return scope.run.call_step(scope.branch, self, args, kwargs)  # type: ignore[return-value]

    @property
    def retry(self) -> Retry:
        return self._own_retry or self.agent.retry

    # Types are looked at when they are first needed: a class may be declared below its use.

    @cached_property
    def signature(self) -> Signature:
        return Signature(self.function, f"step {self.name}", hints=self._hints)

    @cached_property
    def returns(self) -> TypeCodec:
        return TypeCodec(self._hints.get("return", Any), f"result of step {self.name}")

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return type_hints(self.function, f"step {self.name}", self._namespace)

    @overload
    def undo(self, function: Function, /) -> Function: ...

    @overload
    def undo(
        self, /, *, manual: bool = False, retry: Retry | None = None, complete_by: Duration | None = None
    ) -> Callable[[Function], Function]: ...

    def undo(
        self,
        function: Function | None = None,
        /,
        *,
        manual: bool = False,
        retry: Retry | None = None,
        complete_by: Duration | None = None,
    ) -> Function | Callable[[Function], Function]:
        """Declare how this step is undone. With ``manual=True`` a person does it and confirms."""

        def declare(undo: Function) -> Function:
            if self.undo_of is not None:
                raise InvalidDefinition(f"step {self.name} has an undo already: {self.undo_of.name}")
            self.undo_of = Undo(self, undo, manual=manual, retry=retry, complete_by=complete_by)
            self.undo_kind = self.undo_of.kind
            return undo

        return declare if function is None else declare(function)


class Agent:
    """Wraps one remote service or resource: its steps, and how carefully it is called."""

    def __init__(
        self,
        name: str,
        *,
        complete_by: Duration | None,
        retry: Retry | None,
        breaker: Breaker | None,
        concurrency: int | None,
        pace: Pace | bool | None,
        register: Callable[[Step[Any, Any]], None],
    ) -> None:
        if concurrency is not None and not 1 <= concurrency <= CONCURRENCY_MAX:
            raise InvalidRequest(
                f"concurrency is {concurrency}; it must lie between 1 and {CONCURRENCY_MAX:,}"
            )
        self.name = name
        self.complete_by = _optional_duration(complete_by)
        self.retry = policy(retry, Retry, "retry") or Retry()
        self.breaker = policy(breaker, Breaker, "breaker")
        self.concurrency = concurrency
        self.pace = _pace(name, pace=pace, concurrency=concurrency)
        self._register = register

    @overload
    def step(
        self, function: Callable[Parameters, Coroutine[Any, Any, Result]], /
    ) -> Step[Parameters, Coroutine[Any, Any, Result]]: ...

    # A synchronous step is awaited inside a workflow and gives its value at once outside.
    @overload
    def step(self, function: Callable[Parameters, Any], /) -> Step[Parameters, Any]: ...

    @overload
    def step(
        self,
        /,
        *,
        name: str | None = None,
        complete_by: Duration | None = None,
        retry: Retry | None = None,
        idempotent: bool = True,
        pivot: bool = False,
    ) -> Callable[[Callable[Parameters, Result]], Step[Parameters, Result]]: ...

    def step(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        complete_by: Duration | None = None,
        retry: Retry | None = None,
        idempotent: bool = True,
        pivot: bool = False,
    ) -> Any:
        """Declare an operation of this agent. Synchronous functions run in threads."""
        namespace = sys._getframe(1).f_locals  # noqa: SLF001  Types may be local to the caller.

        def declare(body: Callable[..., Any]) -> Step[Any, Any]:
            step: Step[Any, Any] = Step(
                self,
                body,
                name=name,
                complete_by=complete_by,
                retry=retry,
                idempotent=idempotent,
                pivot=pivot,
                namespace=namespace,
            )
            self._register(step)
            return step

        return declare if function is None else declare(function)

    async def close(self) -> None:
        """Let go of what this agent holds open on the running event loop; called when the app stops."""
