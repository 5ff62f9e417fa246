"""For each invariant a bug is planted, and the checker finds it; without the bug it finds nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.chaos.checker import INVARIANTS, check, findings
from tests.chaos.evidence import Body, Facts, Place, evidence_of
from tests.chaos.history import lay_history
from tests.chaos.matrix import checked
from tests.chaos.sampling import look
from tests.chaos.workload import Effects, orders
from tests.support.databases import Database, PostgresDatabase, SqliteDatabase
from tests.support.running import FAST, running

Plant = Callable[["Scene"], object]


class Scene:
    """A store with two orders that have ended, one of them undone; all of it is as it must be."""

    def __init__(self, database: Database, facts: Facts) -> None:
        self.database = database
        self.facts = facts

    def sql(self, *statements: str) -> None:
        """Change rows behind the back of the store, past its rules."""
        if isinstance(self.database, PostgresDatabase):
            look = self.database.look
            look.execute(f"SET search_path = {self.database.schema}")
            for table in ("task", "step", "leader", "checkpoint"):
                look.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            for statement in statements:
                look.execute(statement.replace("{year}", "interval '1 year'"))
            return
        assert isinstance(self.database, SqliteDatabase)
        with closing(sqlite3.connect(self.database.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA ignore_check_constraints = on")
            triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for (name,) in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            for statement in statements:
                connection.execute(statement.replace("{year}", "31536000000000"))

    def happened(self, what: str, id: str, **more: object) -> None:
        """Something that the history tells, after all that it tells already."""
        values = {"at": 1, "what": what, "id": id, "fence": 1, **more}
        names, marks = ", ".join(values), ", ".join(_literal(value) for value in values.values())
        self.sql(f"INSERT INTO history ({names}) VALUES ({marks})")

    def broken(self) -> set[int]:
        return {one.number for one in findings(evidence_of(self.database, self.facts)) if one.violations}


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else "NULL" if value is None else str(value)


@pytest.fixture
async def scene(tmp_path: Path, database: Database) -> Scene:
    return await laid_out(tmp_path, database)


@pytest.fixture
async def any_scene(tmp_path: Path, sqlite_database: SqliteDatabase) -> Scene:
    """For bugs that are not in the rows of a database: one is as good as the other."""
    return await laid_out(tmp_path, sqlite_database)


async def laid_out(tmp_path: Path, database: Database) -> Scene:
    await asyncio.to_thread(lay_history, database)
    effects = Effects(tmp_path / "effects")
    async with running(orders(effects), database.store(), **FAST) as client:
        for number, refused in enumerate([False, True]):
            await client.submit("order", {"number": number, "refused": refused}, id=f"order-{number}")
        for number in range(2):
            await client.settled(f"order-{number}")
    facts = Facts(caps={"shop": 1}, model={"order-0": "processed", "order-1": "undone"}, healed=[(1.0, 2.0)])
    for key in effects.count():
        facts.bodies += [Body(what, key, 1, "shop", 1, 1) for what in ("began", "done", "left")]
    facts.appended = facts.readable = [Place(0, offset, offset) for offset in range(3)]
    facts.handled = {"s/g/0": {0: 1, 1: 1}}
    facts.first_kept = {"s/0": 0}
    facts.fired = [("job", "noon", "a"), ("job", "noon", "a")]
    facts.rolled_back = {"never"}
    facts.plans = [([1], [1], [2])]
    scene = Scene(database, facts)
    scene.happened("checkpoint", "s/g/0/0", place=2)
    scene.happened("task", "job:1:1:noon", after="pending")
    return scene


def again(scene: Scene) -> None:
    scene.happened("step", "order-0", key="check:1", before="running", after="completed", at=2**52)


def begun_after_its_record(scene: Scene) -> None:
    scene.facts.bodies.append(Body("began", "order-0/check:1", 1, "other", 2, 2**52))


def an_older_lock(scene: Scene) -> None:
    scene.happened("task", "order-0", before="processing", after="processed", fence=0)


def in_the_name_of_the_dead(scene: Scene) -> None:
    scene.happened("instance", "zombie", fence=2)
    scene.happened("step", "order-9", key="check:1", after="failed", holder="zombie")


def by_another_attempt(scene: Scene) -> None:
    scene.facts.bodies.append(Body("done", "order-9/check:1", 1, "other", 1, 1))
    scene.happened("step", "order-9", key="check:1", before="running", after="completed", fence=2)


def too_late(scene: Scene) -> None:
    scene.sql("UPDATE step SET ended_at = complete_by + {year} WHERE key = 'check:1'")


def too_late_and_undone_since(scene: Scene) -> None:
    scene.happened("step", "order-1", key="late:1", after="completed", late=1_000_000)


def parked_for_ever(scene: Scene) -> None:
    true = "true" if isinstance(scene.database, PostgresDatabase) else "1"
    scene.sql(f"UPDATE task SET state = 'waiting', parked = {true}, output = NULL WHERE id = 'order-0'")


def held_by_the_dead(scene: Scene) -> None:
    scene.sql("UPDATE task SET state = 'processing', locked_by = 'zombie' WHERE id = 'order-0'")


def two_at_once(scene: Scene) -> None:
    scene.facts.bodies += [Body("began", f"order-9/ship:{number}", 1, "shop", 3, 1) for number in range(2)]


def not_undone(scene: Scene) -> None:
    undone = "state = 'undone' AND key = 'check:1'"
    scene.sql(f"UPDATE step SET state = 'completed' WHERE {undone}")


def undone_oldest_first(scene: Scene) -> None:
    scene.sql(
        "UPDATE step SET position = -position WHERE task_key = (SELECT key FROM task WHERE id = 'order-1')"
    )


def still_being_undone(scene: Scene) -> None:
    scene.sql("UPDATE step SET state = 'undoing' WHERE state = 'undone' AND key = 'check:1'")


def undone_again(scene: Scene) -> None:
    scene.facts.bodies.append(Body("began", "order-1/check:1/undo", 2, "other", 2, 2**52))


def undone_although_processed(scene: Scene) -> None:
    scene.facts.bodies.append(Body("began", "order-0/check:1/undo", 1, "other", 1, 1))


def fired_twice(scene: Scene) -> None:
    scene.happened("task", "job:1:1:noon", after="pending")


def fired_under_two_keys(scene: Scene) -> None:
    scene.facts.fired.append(("job", "noon", "b"))


def lost(scene: Scene) -> None:
    scene.facts.readable = scene.facts.readable[:-1]


def with_a_gap(scene: Scene) -> None:
    scene.facts.appended = []
    scene.facts.readable = [Place(0, 0, 0), Place(0, 2, 2)]


def passed_over(scene: Scene) -> None:
    scene.happened("checkpoint", "s/g/0/0", place=3)


def forgotten_events(scene: Scene) -> None:
    scene.facts.first_kept["s/0"] = 7


def a_parent_that_is_gone(scene: Scene) -> None:
    scene.sql("UPDATE task SET state = 'pending', parent_key = 999 WHERE id = 'order-0'")


def a_child_that_is_gone(scene: Scene) -> None:
    scene.sql("UPDATE step SET kind = 'child', agent = NULL WHERE key = 'ship:1'")


def rolled_back_and_there(scene: Scene) -> None:
    scene.facts.rolled_back.add("order-0")


def a_round_under_another_epoch(scene: Scene) -> None:
    scene.happened("round", "supervisor", fence=2**40)


def an_epoch_that_does_not_move(scene: Scene) -> None:
    scene.happened("leader", "supervisor", fence=2**40)
    scene.happened("leader", "supervisor", fence=2**40)


def never_ended(scene: Scene) -> None:
    scene.sql("UPDATE task SET state = 'pending', output = NULL WHERE id = 'order-0'")


def out_of_bounds(scene: Scene) -> None:
    scene.facts.healed.append((3.0, 2.0))


def planned_otherwise(scene: Scene) -> None:
    scene.facts.plans.append(([1], [3], [2]))


def planned_whatever_the_seed(scene: Scene) -> None:
    scene.facts.plans.append(([1], [1], [1]))


def not_as_the_model(scene: Scene) -> None:
    scene.facts.model["order-1"] = "processed"


def forgotten_although_it_may_not_be(scene: Scene) -> None:
    scene.sql("DELETE FROM step", "DELETE FROM task")


IN_ROWS: list[tuple[int, Plant]] = [
    (1, again),
    (2, an_older_lock),
    (2, in_the_name_of_the_dead),
    (2, by_another_attempt),
    (3, too_late),
    (3, too_late_and_undone_since),
    (4, parked_for_ever),
    (5, held_by_the_dead),
    (7, not_undone),
    (7, undone_oldest_first),
    (7, still_being_undone),
    (8, fired_twice),
    (10, passed_over),
    (11, a_parent_that_is_gone),
    (11, a_child_that_is_gone),
    (13, a_round_under_another_epoch),
    (13, an_epoch_that_does_not_move),
    (14, never_ended),
    (16, forgotten_although_it_may_not_be),
]
OUTSIDE: list[tuple[int, Plant]] = [
    (1, begun_after_its_record),
    (6, two_at_once),
    (7, undone_again),
    (7, undone_although_processed),
    (8, fired_under_two_keys),
    (9, lost),
    (9, with_a_gap),
    (11, forgotten_events),
    (12, rolled_back_and_there),
    (14, out_of_bounds),
    (15, planned_otherwise),
    (15, planned_whatever_the_seed),
    (16, not_as_the_model),
]


def named(bugs: list[tuple[int, Plant]]) -> list[str]:
    return [plant.__name__ for _, plant in bugs]


@pytest.mark.parametrize(("number", "plant"), IN_ROWS, ids=named(IN_ROWS))
def test_a_bug_planted_in_the_rows_of_a_store_is_found(scene: Scene, number: int, plant: Plant):
    found(scene, number, plant)


@pytest.mark.parametrize(("number", "plant"), OUTSIDE, ids=named(OUTSIDE))
def test_a_bug_planted_outside_of_the_store_is_found(any_scene: Scene, number: int, plant: Plant):
    found(any_scene, number, plant)


def found(scene: Scene, number: int, plant: Plant) -> None:
    assert scene.broken() == set()

    plant(scene)

    assert number in scene.broken()
    with pytest.raises(AssertionError, match=f"{number} · "):
        check(evidence_of(scene.database, scene.facts))


def test_what_is_wrong_only_for_a_while_is_found_as_well(scene: Scene):
    parked_for_ever(scene)
    look(scene.database, scene.facts)
    false = "false" if isinstance(scene.database, PostgresDatabase) else "0"
    scene.sql(f"UPDATE task SET state = 'processed', parked = {false}, output = input WHERE id = 'order-0'")

    assert scene.broken() == {4}


def test_what_breaks_a_rule_of_the_store_is_found_although_no_invariant_tells_of_it(scene: Scene):
    checked(scene.database, scene.facts)
    scene.sql("UPDATE step SET position = 1 WHERE task_key = (SELECT key FROM task WHERE id = 'order-0')")

    assert scene.broken() == set()
    with pytest.raises(AssertionError, match="step_order"):
        checked(scene.database, scene.facts)


def test_there_is_a_bug_for_every_invariant():
    planted = {number for number, _ in IN_ROWS + OUTSIDE}
    assert planted == set(INVARIANTS) == set(range(1, 17))


def test_a_row_that_claims_an_invariant_without_evidence_fails(any_scene: Scene):
    any_scene.facts.rolled_back = set()

    check(evidence_of(any_scene.database, any_scene.facts), claimed=[1, 2])
    with pytest.raises(AssertionError, match=r"12 · .* nothing to look at"):
        check(evidence_of(any_scene.database, any_scene.facts), claimed=[12])
