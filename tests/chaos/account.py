"""The account of what a killed application did: what the store says, held against what took effect."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.workload import ACKNOWLEDGED, FORWARD, UNDOABLE, Effects


@dataclass(frozen=True)
class Standing:
    """The states of tasks, by id, and of steps, by idempotency key, while no process runs on the store."""

    tasks: dict[str, str]
    steps: dict[str, str]

    @classmethod
    def of(cls, folder: Path) -> Standing:
        with closing(sqlite3.connect(folder / "store.db")) as connection:
            known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'step'").fetchone()
            if known is None:  # Killed before there was a schema.
                return cls({}, {})
            tasks = connection.execute("SELECT id, state FROM task").fetchall()
            steps = connection.execute(
                "SELECT task.id || '/' || step.key, step.state FROM step JOIN task ON task.key = step.task_key"
            ).fetchall()
        return cls(dict(tasks), dict(steps))

    def in_flight(self) -> set[str]:
        """Those that may or may not have taken effect, which is what a kill leaves open."""
        return self._in("running") | {f"{key}/undo" for key in self._in("undoing")}

    def over(self) -> set[str]:
        """Those that are recorded as done, and must never be done again."""
        undone = {f"{key}/undo" for key in self._in("undone")}
        return self._in("completed", "undoing", "undone") | undone

    def _in(self, *states: str) -> set[str]:
        return {key for key, state in self.steps.items() if state in states}


class Account:
    """Follows the orders of one folder through any number of kills, and settles at the end."""

    def __init__(self, folder: Path, refused: Sequence[bool]) -> None:
        self.folder = folder
        self.kills = 0
        #: In which states the kills found the steps.
        self.found: set[tuple[str, str]] = set()
        self._refused = refused
        self._in_flight: Counter[str] = Counter()
        self._over: dict[str, int] = {}

    def note_kill(self) -> None:
        """Look at what a kill left, before anybody goes on."""
        left, effects = Standing.of(self.folder), self._effects()
        assert not effects[ACKNOWLEDGED] or len(left.tasks) == len(self._refused), (
            "an acknowledged order is lost"
        )
        self.kills += 1
        self.found |= set(left.steps.items())
        self._in_flight.update(left.in_flight())
        for key in left.over():
            self._over.setdefault(key, effects[key])

    def settle(self) -> str:
        """Everything has ended: hold it against the effects. What was found, in one line."""
        effects = self._effects()
        del effects[ACKNOWLEDGED]
        expected = self._expected()
        tasks = Standing.of(self.folder).tasks
        assert tasks == {f"order-{number}": _end(refused) for number, refused in enumerate(self._refused)}
        assert set(effects) == expected
        repeated = Counter({key: times for key, times in effects.items() if times > 1})
        for key, times in repeated.items():
            allowed = 1 + self._in_flight[key]
            assert times <= allowed, (
                f"{key} took effect {times} times; it was in flight at {allowed - 1} kills"
            )
        for key in expected & self._over.keys():
            assert effects[key] == self._over[key], f"{key} ran again after it was recorded"
        return (
            f"kills {self.kills} · tasks {len(tasks)} · processed {self._refused.count(False)}"
            f" · undone {self._refused.count(True)} · effects {effects.total()}, expected {len(expected)},"
            f" repeated {effects.total() - len(expected)}, in flight at a kill {self._in_flight.total()}"
        )

    def _effects(self) -> Counter[str]:
        return Effects(self.folder / "effects").count()

    def _expected(self) -> set[str]:
        found = set()
        for number, refused in enumerate(self._refused):
            keys = [*UNDOABLE, *(f"{key}/undo" for key in UNDOABLE)] if refused else FORWARD
            found |= {f"order-{number}/{key}" for key in keys}
        return found


def _end(refused: bool) -> str:
    return "undone" if refused else "processed"
