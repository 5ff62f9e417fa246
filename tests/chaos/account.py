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
    """The states of tasks, by id, and of steps, by idempotency key, as of one commit."""

    tasks: dict[str, str]
    steps: dict[str, str]
    #: Whether all submissions had been acknowledged before that.
    acknowledged: bool

    @classmethod
    def of(cls, connection: sqlite3.Connection, *, acknowledged: bool) -> Standing:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'step'").fetchone() is None:
            return cls({}, {}, acknowledged)  # Killed before there was a schema.
        tasks = connection.execute("SELECT key, id, state FROM task").fetchall()
        ids = {key: task_id for key, task_id, _ in tasks}
        steps = connection.execute("SELECT task_key, key, state FROM step").fetchall()
        return cls(
            {task_id: state for _, task_id, state in tasks},
            {f"{ids[task_key]}/{key}": state for task_key, key, state in steps},
            acknowledged,
        )

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

    def standing(self) -> Standing | None:
        """How everything stands; ``None`` while a process keeps all others out of the store."""
        acknowledged = self._effects()[ACKNOWLEDGED] > 0
        with closing(sqlite3.connect(self.folder / "store.db", timeout=0.5)) as connection:
            try:
                connection.execute("BEGIN")  # One look: all of it as of the same commit.
                return Standing.of(connection, acknowledged=acknowledged)
            except sqlite3.OperationalError:
                return None

    def note_kill(self, left: Standing | None) -> None:
        """A process was killed, and this is what it left, before anybody went on."""
        assert left is not None
        lost = left.acknowledged and len(left.tasks) < len(self._refused)
        assert not lost, "not all of what was acknowledged is there"
        self.kills += 1
        self.found |= set(left.steps.items())
        self._in_flight.update(left.in_flight())
        effects = self._effects()
        for key in left.over():
            self._over.setdefault(key, effects[key])

    def settle(self) -> str:
        """Everything has ended: hold it against the effects. What was found, in one line."""
        effects = self._effects()
        del effects[ACKNOWLEDGED]
        expected = self._expected()
        end = self.standing()
        tasks = {} if end is None else end.tasks
        assert tasks == {f"order-{number}": _end(refused) for number, refused in enumerate(self._refused)}
        assert set(effects) == expected
        repeated = Counter({key: times for key, times in effects.items() if times > 1})
        for key, times in repeated.items():
            in_flight = self._in_flight[key]
            assert times <= 1 + in_flight, f"{key} took effect {times} times, in flight at {in_flight} kills"
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
