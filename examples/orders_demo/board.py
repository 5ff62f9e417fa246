"""What can be seen from outside: the state of every order, and the story so far."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from backstay import Client
from backstay.store.base import TaskFilter
from backstay.views import Task

ENDED: Final = frozenset({"processed", "undone", "error", "undo_failed", "cancelled"})

PAGE: Final = 1_000
STORY_LINES: Final = 8
#: One bar of the pulse stands for so many seconds.
BEAT_SECONDS: Final = 0.25
BEATS: Final = 48

_INSTANT: Final = timedelta(microseconds=1)


class Board:
    """Read by the screen, filled by the demo."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._watched_from: datetime | None = None
        self._beat_ends = self._began + BEAT_SECONDS
        self._ended_before = 0
        self.accepted: list[str] = []
        self.states: dict[str, str] = {}
        self.holders: set[str] = set()
        self.effects: Counter[str] = Counter()
        self.story: deque[str] = deque(maxlen=STORY_LINES)
        self.pulse: deque[int] = deque([0], maxlen=BEATS)
        self.child = "not started"

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.states.values())

    @property
    def ended(self) -> int:
        return sum(1 for state in self.states.values() if state in ENDED)

    @property
    def finished(self) -> bool:
        """Whether every accepted order came to its end."""
        return all(self.states.get(order) in ENDED for order in self.accepted)

    @property
    def per_second(self) -> float:
        """Orders that ended lately."""
        recent = list(self.pulse)[-4:]
        return sum(recent) / (len(recent) * BEAT_SECONDS)

    def tell(self, line: str) -> str:
        """Add a line to the story."""
        told = f"{self.seconds:5.1f} s  {line}"
        self.story.append(told)
        return told

    async def look(self, client: Client) -> None:
        """Bring the states up to date. What ended is not looked at again."""
        found = await self._unfinished(client)
        for task in found:
            self.states[task.id] = task.state
        self.holders = {task.locked_by for task in found if task.locked_by is not None}
        moving = [task.created_at for task in found if task.state not in ENDED]
        newest = [task.created_at for task in found[:1]]
        self._watched_from = min(moving or newest, default=self._watched_from)
        self._take_pulse()

    async def _unfinished(self, client: Client) -> list[Task]:
        """Everything from the oldest order on that was still moving at the last look."""
        after = None if self._watched_from is None else self._watched_from - _INSTANT
        found: list[Task] = []
        before: int | None = None
        while True:
            page = await client.tasks(TaskFilter(created_after=after, before=before, limit=PAGE))
            found += page.items
            if page.next is None:
                return found
            before = int(page.next)

    def _take_pulse(self) -> None:
        ended = self.ended
        self.pulse[-1] = ended - self._ended_before
        while self._clock() >= self._beat_ends:
            self._beat_ends += BEAT_SECONDS
            self._ended_before = ended
            self.pulse.append(0)
