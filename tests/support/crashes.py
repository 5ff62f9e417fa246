"""A store that leaves a copy of itself behind at every commit.

Each copy is what a crash right after that commit would have left: an application that opens it finds
the tasks of a process that died. One that is resumed from every copy has been crashed at every point.
"""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backstay.store.sqlite import SqliteStore

Row = tuple[Any, ...]


def store_at(path: Path, **options: Any) -> SqliteStore:
    return SqliteStore(f"sqlite:///{path}", **options)


@dataclass(frozen=True)
class Crash:
    """What is left of a store after a crash."""

    path: Path

    def store(self) -> SqliteStore:
        return store_at(self.path)

    def step_states(self, task_id: str) -> dict[str, str]:
        """The state of each entry of a task's journal, by key."""
        found = self.rows(
            "SELECT step.key, step.state FROM step JOIN task ON task.key = step.task_key WHERE task.id = ?",
            task_id,
        )
        return dict(found)

    def completed(self, task_id: str) -> set[str]:
        return {key for key, state in self.step_states(task_id).items() if state == "completed"}

    def journal(self) -> list[Row]:
        """Everything that is recorded of steps and signals, field by field."""
        steps = self.rows("SELECT * FROM step ORDER BY task_key, key")
        return steps + self.rows("SELECT * FROM signal ORDER BY task_key, number")

    def content(self) -> list[Row]:
        """Everything that a resumed application goes by."""
        return self.rows("SELECT * FROM task ORDER BY key") + self.journal()

    def rows(self, query: str, *values: Any) -> list[Row]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(query, values).fetchall()


class Crashes:
    """Collects a copy of one store after each commit that changed something."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._path = folder / "original.db"
        self._number = itertools.count()
        self.copies: list[Crash] = []

    def store(self) -> SqliteStore:
        """The store to run on."""
        return store_at(self._path, boundary=self._committed)

    def now(self) -> Crash:
        """What a crash at this very moment would leave."""
        crash = Crash(self._folder / f"crash-{next(self._number)}.db")
        with closing(sqlite3.connect(self._path)) as source, closing(sqlite3.connect(crash.path)) as target:
            source.backup(target)
        # The lock files come along, the locks do not: the holders of the copy are found dead at once.
        locks = self._path.with_name(self._path.name + "-instances")
        if locks.exists():
            shutil.copytree(locks, crash.path.with_name(crash.path.name + "-instances"))
        return crash

    def _committed(self, moment: str) -> None:
        if moment != "after":
            return
        crash = self.now()
        before = self.copies[-1].content() if self.copies else []
        if crash.content() != before:
            self.copies.append(crash)
