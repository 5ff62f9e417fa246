"""The account of what a killed application did: what the store says, held against what took effect."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.workload import ACKNOWLEDGED, Site, effects_of, ends_of
from tests.support.databases import Database

#: In one query, so that all of it is as of the same commit.
EVERYTHING = """
    SELECT task.id, task.state, step.key, step.state, step.attempt, step.undo_attempt
      FROM task LEFT JOIN step ON step.task_key = task.key
"""


@dataclass(frozen=True)
class Standing:
    """The states of tasks, by id, and of steps, by idempotency key, as of one commit."""

    tasks: dict[str, str]
    steps: dict[str, str]
    #: The number of the latest attempt, by the idempotency key that it has: that of a step, or of its undo.
    attempts: dict[str, int]
    #: Whether all submissions had been acknowledged before that.
    acknowledged: bool

    def in_flight(self) -> set[tuple[str, int]]:
        """The attempts that may or may not have taken effect, which is what a kill leaves open."""
        keys = self._in("running") | {f"{key}/undo" for key in self._in("undoing")}
        return {(key, self.attempts[key]) for key in keys}

    def over(self) -> set[str]:
        """Those that are recorded as done, and must never be done again."""
        undone = {f"{key}/undo" for key in self._in("undone")}
        return self._in("completed", "undoing", "undone") | undone

    def _in(self, *states: str) -> set[str]:
        return {key for key, state in self.steps.items() if state in states}


class Account:
    """Follows the orders of one site through any number of kills, and settles at the end."""

    def __init__(
        self, folder: Path, database: Database, refused: Sequence[bool], *, lease: str = "1s"
    ) -> None:
        self.site = Site(folder, database.url, database.heir(lease=lease))
        self.kills = 0
        #: In which states the kills found the steps.
        self.found: set[tuple[str, str]] = set()
        self.database = database
        self._refused = refused
        # What nobody has taken up again is found by the next kill as well: each attempt counts once.
        self._in_flight: set[tuple[str, int]] = set()
        self._over: dict[str, int] = {}

    def standing(self) -> Standing | None:
        """How everything stands; ``None`` while a process keeps all others out of the store."""
        acknowledged = self._effects()[ACKNOWLEDGED] > 0
        try:
            rows = self.database.rows(EVERYTHING) if self.database.has_tables() else []
        except sqlite3.OperationalError:
            return None
        steps = [(f"{task_id}/{key}", *rest) for task_id, _, key, *rest in rows if key is not None]
        return Standing(
            tasks={row[0]: row[1] for row in rows},
            steps={key: state for key, state, _, _ in steps},
            attempts={key: attempt for key, _, attempt, _ in steps}
            | {f"{key}/undo": attempt for key, _, _, attempt in steps},
            acknowledged=acknowledged,
        )

    def note_kill(self, left: Standing | None) -> None:
        """A process was killed, and this is what it left, before anybody went on."""
        assert left is not None
        lost = left.acknowledged and len(left.tasks) < len(self._refused)
        assert not lost, "not all of what was acknowledged is there"
        self.kills += 1
        self.found |= set(left.steps.items())
        self._in_flight |= left.in_flight()
        effects = self._effects()
        for key in left.over():
            self._over.setdefault(key, effects[key])

    def settle(self) -> str:
        """Everything has ended: hold it against the effects. What was found, in one line."""
        effects = self._effects()
        del effects[ACKNOWLEDGED]
        expected = effects_of(self._refused)
        end = self.standing()
        tasks = {} if end is None else end.tasks
        assert tasks == ends_of(self._refused)
        assert set(effects) == expected
        interrupted = Counter(key for key, _ in self._in_flight)
        for key, times in effects.items():
            assert times <= 1 + interrupted[key], (
                f"{key} took effect {times} times, {interrupted[key]} of its attempts were interrupted"
            )
        for key in expected & self._over.keys():
            assert effects[key] == self._over[key], f"{key} ran again after it was recorded"
        return (
            f"kills {self.kills} · tasks {len(tasks)} · processed {self._refused.count(False)}"
            f" · undone {self._refused.count(True)} · effects {effects.total()}, expected {len(expected)},"
            f" repeated {effects.total() - len(expected)}, in flight at a kill {len(self._in_flight)}"
        )

    def _effects(self) -> Counter[str]:
        return self.site.effects.count()
