"""The event loop that a workflow's code lives in.

A workflow is ordinary asyncio code, but it must do the same things in the same order when it is
replayed. So it gets an event loop of its own, in which nothing happens by itself: no timers, no
sockets, no threads. The run delivers one result, then drains the loop until every branch of the
workflow is blocked again; that is one turn, and turns repeat exactly.

It also tells us three things that a shared loop could not: that the workflow is blocked (nothing is
ready), which branch a call comes from (tasks are numbered where they are created), and that the code
asked for wall-clock time (``asyncio.sleep`` and ``asyncio.timeout`` end up in ``call_later``).
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, Final, NoReturn, TypeVar

from backstay.definitions.ambient import RunningWorkflow, Scope, current_scope
from backstay.domain.journal import Branch
from backstay.errors import NotInWorkflow
from backstay.observe import log

# A turn of honest code runs a handful of callbacks per step; one that runs this many is spinning.
CALLBACKS_PER_TURN_MAX: Final = 1_000_000

Value = TypeVar("Value")


class WorkflowSpins(RuntimeError):
    """The workflow never comes to rest: it loops without waiting for anything."""

    def __init__(self) -> None:
        super().__init__(
            f"the workflow ran {CALLBACKS_PER_TURN_MAX:,} callbacks"
            " without waiting for a step, sleep or signal"
        )


class WorkflowStuck(RuntimeError):
    """The workflow is blocked, and nothing that can happen would unblock it."""

    def __init__(self) -> None:
        super().__init__(
            "the workflow waits for something that is neither a step nor a sleep, signal or child,"
            " so it can never go on"
        )


class _Ready:
    """A callback whose turn comes. What asyncio has for this does more, and costs four times as much."""

    __slots__ = ("args", "callback", "context")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context

    def cancel(self) -> None:
        self.callback = None

    def cancelled(self) -> bool:
        return self.callback is None


class WorkflowLoop:
    """Drives the asyncio tasks of one workflow. Lives inside the real event loop, one turn at a time."""

    # Not a subclass of asyncio's: whatever is not defined here is refused, not inherited.
    __slots__ = ("_main", "_ready", "_run_of", "_tasks")

    def __init__(self, run: RunningWorkflow) -> None:
        # None once the workflow is over: the run leads back here, and what holds itself is freed late.
        self._run_of: RunningWorkflow | None = run
        self._ready: list[_Ready] = []
        self._main: asyncio.Task[Any] | None = None
        self._tasks: set[asyncio.Task[Any]] | None = None  # beside the main one

    def start(self, workflow: Coroutine[Any, Any, Value]) -> asyncio.Task[Value]:
        """Create the workflow's own task: the branch with the empty path."""
        self._main = task = self._new_task(workflow, Branch(), copy_context(), name="branch main")
        return task

    @property
    def branching(self) -> bool:
        """Whether the workflow has tasks beside its own."""
        return bool(self._tasks)

    def drain(self) -> None:
        """Run until every branch is blocked."""
        if not self._ready:
            return
        outer = events._get_running_loop()  # noqa: SLF001  The only way to lend the thread to another loop.
        events._set_running_loop(self)  # type: ignore[arg-type]  # noqa: SLF001
        called = 0
        try:
            while self._ready:
                ready, self._ready = self._ready, []
                called += len(ready)
                if called > CALLBACKS_PER_TURN_MAX:
                    raise WorkflowSpins
                self._call_all(ready)
        finally:
            events._set_running_loop(outer)  # noqa: SLF001

    def _call_all(self, ready: list[_Ready]) -> None:
        for one in ready:
            if one.callback is None:
                continue
            try:
                one.context.run(one.callback, *one.args)
            except KeyboardInterrupt:
                raise
            except SystemExit:
                pass  # The task that raised it has it as its outcome.
            except BaseException as error:  # noqa: BLE001  As in asyncio: the others still have their turn.
                self._report(one, error)

    def _report(self, one: _Ready, error: BaseException) -> None:
        self.call_exception_handler({"message": f"callback {one.callback!r} failed", "exception": error})

    def abandon(self) -> None:
        """Cancel whatever is left and let it unwind; code that will not go quietly is dropped."""
        for task in self._left():
            task.cancel()
        try:
            self.drain()
        except WorkflowSpins:
            self._ready.clear()
        for task in self._left():
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001

    def close(self) -> None:
        """Nothing runs here any more."""
        self._run_of = self._main = None

    def _left(self) -> list[asyncio.Task[Any]]:
        main = [] if self._main is None or self._main.done() else [self._main]
        return [*main, *(self._tasks or ())]

    # What asyncio asks of a loop

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Ready:
        ready = _Ready(callback, args, copy_context() if context is None else context)
        self._ready.append(ready)
        return ready

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def create_task(
        self, coro: Any, *, name: object = None, context: Context | None = None, **_later: Any
    ) -> asyncio.Task[Any]:
        scope = current_scope.get()
        branch = scope.branch.child() if scope is not None else Branch()
        own = copy_context() if context is None else context.copy()
        label = f"branch {branch.path}" if name is None else str(name)
        task = self._new_task(coro, branch, own, name=label)
        if self._tasks is None:
            self._tasks = set()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _new_task(
        self, coro: Coroutine[Any, Any, Value], branch: Branch, context: Context, *, name: str
    ) -> asyncio.Task[Value]:
        if self._run_of is None:
            _refuse("the workflow is over")
        context.run(current_scope.set, Scope(self._run_of, branch))
        return asyncio.Task(coro, loop=self, name=name, context=context)  # type: ignore[arg-type]

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        log.warning("workflow: %s", context.get("message"), exc_info=context.get("exception"))

    # asyncio asks whenever it makes a future: ``bool()`` is False, and no call of Python.
    get_debug = staticmethod(bool)

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    # What a workflow must not do: everything else

    def time(self) -> float:
        _refuse("the wall clock does not replay")

    def call_later(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        _refuse("asyncio.sleep, asyncio.timeout and asyncio.wait_for do not replay")

    call_at = call_later

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(f"threads, sockets and processes do not replay (asyncio's {name})")


def _refuse(why: str) -> NoReturn:
    raise NotInWorkflow(
        f"{why}: in a workflow use backstay's sleep and race (race(step(), sleep()) makes a timeout),"
        " and do everything else in a step"
    )
