"""The event loop that a workflow's code lives in.

A workflow is ordinary asyncio code, but it must do the same things in the same order when it is
replayed. So it lives in an event loop in which nothing happens by itself: no timers, no sockets, no
threads. The run delivers one result, then drains the workflow's branches until every one of them is
blocked again; that is one turn, and turns repeat exactly. All workflows of a scheduler share the
loop, since they have their turns one after the other; what is ready to run is kept for each apart.

It also tells us three things that a shared loop could not: that the workflow is blocked (nothing is
ready), which branch a call comes from (tasks are numbered where they are created), and that the code
asked for wall-clock time (``asyncio.sleep`` and ``asyncio.timeout`` end up in ``call_later``).
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any, Final, NoReturn, TypeVar

import msgspec

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


class _Ready(msgspec.Struct, eq=False):
    """A callback whose turn comes. What asyncio has for this does more, and costs six times as much."""

    callback: Callable[..., object] | None
    args: tuple[Any, ...]
    context: Context

    def cancel(self) -> None:
        self.callback = None

    def cancelled(self) -> bool:
        return self.callback is None


class Branches:
    """The asyncio tasks of one workflow: its own, and those that it creates."""

    __slots__ = ("_loop", "_main", "_run", "_tasks", "ready")

    def __init__(self, loop: WorkflowLoop, run: RunningWorkflow) -> None:
        self._loop = loop
        # None once the workflow is over: the run leads back here, and what holds itself is freed late.
        self._run: RunningWorkflow | None = run
        self._main: asyncio.Task[Any] | None = None
        self._tasks: set[asyncio.Task[Any]] | None = None  # beside the main one
        self.ready: list[_Ready] = []

    def start(self, workflow: Coroutine[Any, Any, Value]) -> asyncio.Task[Value]:
        """Create the workflow's own task: the branch with the empty path."""
        self._loop.turn_of = self
        self._main = task = self.new_task(workflow, Branch(), copy_context(), name="branch main")
        return task

    @property
    def branching(self) -> bool:
        """Whether the workflow has tasks beside its own."""
        return bool(self._tasks)

    def drain(self) -> None:
        """Run until every branch is blocked. Whatever becomes ready from here on is this workflow's."""
        self._loop.turn_of = self
        if self.ready:
            self._loop.drain(self)

    def abandon(self) -> None:
        """Cancel whatever is left and let it unwind; code that will not go quietly is dropped."""
        left = self._left()
        if not left:
            return
        self._loop.turn_of = self
        for task in left:
            task.cancel()
        try:
            self.drain()
        except WorkflowSpins:
            self.ready.clear()
        for task in self._left():
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001

    def close(self) -> None:
        """Nothing runs here any more."""
        self._run = self._main = None

    def branch_off(self, coro: Any, branch: Branch, context: Context, *, name: str) -> asyncio.Task[Any]:
        """A task beside the main one."""
        task = self.new_task(coro, branch, context, name=name)
        if self._tasks is None:
            self._tasks = set()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def new_task(
        self, coro: Coroutine[Any, Any, Value], branch: Branch, context: Context, *, name: str
    ) -> asyncio.Task[Value]:
        if self._run is None:
            _refuse("the workflow is over")
        context.run(current_scope.set, Scope(self._run, branch))
        return asyncio.Task(coro, loop=self._loop, name=name, context=context)  # type: ignore[arg-type]

    def _left(self) -> list[asyncio.Task[Any]]:
        main = [] if self._main is None or self._main.done() else [self._main]
        return [*main, *(self._tasks or ())]


class WorkflowLoop:
    """Drives the workflows of one scheduler. Lives inside the real event loop, one turn at a time."""

    # Not a subclass of asyncio's: whatever is not defined here is refused, not inherited.
    __slots__ = ("runs_here", "turn_of")

    def __init__(self) -> None:
        # Whose turn it is, or was last: whatever becomes ready is that workflow's.
        self.turn_of: Branches | None = None
        self.runs_here = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Lend the thread to this loop for many turns: each hand-over asks the operating system."""
        if self.runs_here:
            yield
            return
        outer = events._get_running_loop()  # noqa: SLF001  The only way to lend the thread to another loop.
        events._set_running_loop(self)  # type: ignore[arg-type]  # noqa: SLF001
        self.runs_here = True
        try:
            yield
        finally:
            self.runs_here = False
            events._set_running_loop(outer)  # noqa: SLF001

    def drain(self, branches: Branches) -> None:
        """Run until every branch is blocked."""
        if not self.runs_here:
            with self.running():
                self.drain(branches)
            return
        called = 0
        while branches.ready:
            ready, branches.ready = branches.ready, []
            called += len(ready)
            if called > CALLBACKS_PER_TURN_MAX:
                raise WorkflowSpins
            for one in ready:
                if one.callback is not None:
                    try:
                        one.context.run(one.callback, *one.args)
                    except KeyboardInterrupt:
                        raise
                    except SystemExit:
                        pass  # The task that raised it has it as its outcome.
                    except BaseException as error:  # noqa: BLE001  As in asyncio: the others have their turn.
                        self._report(one, error)

    def _report(self, one: _Ready, error: BaseException) -> None:
        self.call_exception_handler({"message": f"callback {one.callback!r} failed", "exception": error})

    # What asyncio asks of a loop

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Ready:
        ready = _Ready(callback, args, copy_context() if context is None else context)
        if self.turn_of is not None:
            self.turn_of.ready.append(ready)
        return ready

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def create_task(
        self, coro: Any, *, name: object = None, context: Context | None = None, **_later: Any
    ) -> asyncio.Task[Any]:
        if self.turn_of is None:
            _refuse("no workflow has its turn")
        scope = current_scope.get()
        branch = scope.branch.child() if scope is not None else Branch()
        own = copy_context() if context is None else context.copy()
        label = f"branch {branch.path}" if name is None else str(name)
        return self.turn_of.branch_off(coro, branch, own, name=label)

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
