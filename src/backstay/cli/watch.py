"""``backstay tasks watch``: a live picture on a terminal, a line for each change on a pipe."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Final, NamedTuple

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from backstay.cli.access import Desk, JsonOption, StoreOption, UrlOption, desk_at
from backstay.cli.render import console, failure_text, note, print_json_line, say
from backstay.cli.tables import STYLES, step_table, task_details, task_table
from backstay.clock import SystemClock
from backstay.domain.states import SETTLED, TASK_ARROWS, TaskState
from backstay.domain.why import Reason
from backstay.domain.wording import instant
from backstay.errors import Unavailable
from backstay.store.base import TaskFilter
from backstay.views import Page, Step, Task

LOOK_SECONDS: Final = 0.5

# How many tasks under way are looked at, and how many of the newest, ended or not.
UNDER_WAY_MAX: Final = 200
NEWEST_MAX: Final = 50

# Lines of a terminal that the table of tasks leaves to its head, the counts and the prompt.
_FRAME_LINES: Final = 6

_UNDER_WAY: Final = tuple(
    state for state in TaskState if TASK_ARROWS[state] and state is not TaskState.PROCESSED
)


def watch(
    task_id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="One task, until it ends or stops; else all of them.", show_default=False
        ),
    ] = None,
    store: StoreOption = None,
    url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Watch tasks as they move. Ctrl-C ends the watching, and nothing else."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_watch(store, url, task_id, json=json))


async def _watch(store: str | None, url: str | None, task_id: str | None, *, json: bool) -> None:
    screen = console()
    live = screen.is_terminal and not json
    async with desk_at(store, url) as desk:
        scene = _AllTasks(desk, tell_all=not live) if task_id is None else _OneTask(desk, task_id)
        if live:
            with Live(console=screen, auto_refresh=False) as picture:
                await _follow(scene, lambda: picture.update(scene.picture(lines=screen.height), refresh=True))
        else:
            told: dict[str, str] = {}
            await _follow(scene, lambda: _tell_news(scene, told, json=json))


async def _follow(scene: _Scene, show: Callable[[], None]) -> None:
    await scene.look()
    show()
    while not scene.over:
        await asyncio.sleep(LOOK_SECONDS)
        await _look_again(scene)
        show()


async def _look_again(scene: _Scene) -> None:
    """A store or a server that is away for a moment does not end the watching."""
    away = False
    while True:
        try:
            return await scene.look()
        except Unavailable as error:
            if not away:
                note(f"{error}; still trying")
            away = True
            await asyncio.sleep(LOOK_SECONDS)


# What is seen


class _Fact(NamedTuple):
    """Something that may change: in words, and the task that it is about."""

    words: str
    task: Task


class _Scene(ABC):
    """What is watched."""

    over = False

    @abstractmethod
    async def look(self) -> None:
        """See how it stands now."""

    @abstractmethod
    def picture(self, *, lines: int) -> RenderableType:
        """How it stood at the last look, on a terminal with so many lines."""

    @abstractmethod
    def facts(self) -> Mapping[str, _Fact]:
        """The same one by one, each under a name that stays."""


class _OneTask(_Scene):
    def __init__(self, desk: Desk, task_id: str) -> None:
        self._desk = desk
        self._id = task_id
        self._seen: tuple[Task, list[Step], Reason] | None = None

    async def look(self) -> None:
        # The task first: once it has settled, what is read after it is how it stays.
        task = await self._desk.task(self._id)
        self._seen = task, await self._desk.steps(self._id), await self._desk.why(self._id)
        self.over = task.state in SETTLED

    def picture(self, *, lines: int) -> RenderableType:  # noqa: ARG002  All of it is wanted, however long.
        task, steps, reason = self._last_look()
        now = _now()
        details = task_details(task, reason, now=now)
        return Group(details, step_table(steps, now=now)) if steps else details

    def facts(self) -> Mapping[str, _Fact]:
        task, steps, reason = self._last_look()
        named = {"task": _standing(task)}
        named |= {f"step {step.key}": _step_words(step) for step in steps}
        named["why"] = f"  {reason.reason}"
        return {name: _Fact(words, task) for name, words in named.items()}

    def _last_look(self) -> tuple[Task, list[Step], Reason]:
        assert self._seen is not None
        return self._seen


class _AllTasks(_Scene):
    """The tasks under way, and the newest ones, until somebody has seen enough."""

    def __init__(self, desk: Desk, *, tell_all: bool) -> None:
        self._desk = desk
        # A list of words must not miss how a task ended; a picture has no room for all of them anyway.
        self._tell_all = tell_all
        self._under_way: Page[Task] = Page([])
        self._newest: list[Task] = []
        self._gone: list[Task] = []

    async def look(self) -> None:
        before = {task.id for task in self._under_way.items}
        self._under_way = await self._desk.tasks(TaskFilter(states=_UNDER_WAY, limit=UNDER_WAY_MAX))
        self._newest = (await self._desk.tasks(TaskFilter(limit=NEWEST_MAX))).items
        if self._tell_all:
            gone = before.difference(task.id for task in self._present())
            self._gone = [await self._desk.task(task_id) for task_id in sorted(gone)]

    def picture(self, *, lines: int) -> RenderableType:
        tasks = list(self._present())[: max(1, lines - _FRAME_LINES)]
        if not tasks:
            return Text("there are no tasks yet")
        return Group(self._counts(), task_table(tasks, now=_now()))

    def facts(self) -> Mapping[str, _Fact]:
        return {task.id: _Fact(_standing(task), task) for task in (*self._present(), *self._gone)}

    def _present(self) -> Iterator[Task]:
        """Those under way first, each once."""
        known = {task.id for task in self._under_way.items}
        yield from self._under_way.items
        yield from (task for task in self._newest if task.id not in known)

    def _counts(self) -> Text:
        counted = Counter(task.state for task in self._under_way.items)
        shown = [
            Text(f"{counted[state]} {state}", style=STYLES[state]) for state in _UNDER_WAY if counted[state]
        ]
        line = Text(", ").join(shown) if shown else Text("nothing is under way")
        if self._under_way.next is not None:
            line.append(f", of the newest {UNDER_WAY_MAX} under way")
        return line


# On a pipe


def _tell_news(scene: _Scene, told: dict[str, str], *, json: bool) -> None:
    """Say what is not as it was told before; with ``json`` the tasks that this is about, each once."""
    facts = scene.facts()
    news = [fact for name, fact in facts.items() if told.get(name) != fact.words]
    # What is out of sight is forgotten: somebody may watch for weeks.
    told.clear()
    told.update({name: fact.words for name, fact in facts.items()})
    if json:
        for task in {fact.task.id: fact.task for fact in news}.values():
            print_json_line(task)
        return
    at = instant(_now())
    for fact in news:
        say(f"{at} {fact.words}")


def _standing(task: Task) -> str:
    error = f": {failure_text(task.error)}" if task.error is not None else ""
    return f"{task.id} is {task.state}{error}"


def _step_words(step: Step) -> str:
    attempt = f", attempt {step.attempt}" if step.attempt > 1 else ""
    error = f": {failure_text(step.error, with_step=False)}" if step.error is not None else ""
    return f"  step {step.key} is {step.state}{attempt}{error}"


def _now() -> datetime:
    return SystemClock().now()
