"""The failure matrix: each failure is a row, each row is a test that carries it.

    @failure(
        "an agent is killed mid-step",
        of=Part.AGENTS, seen="…", heals="…", takes="…", within="20s", invariants=(1, 2, 5, 14),
    )
    def test_when_an_agent_is_killed_mid_step_another_does_the_step(platform, healing): …

The test is named after its failure, asserts with ``healing`` how long it takes, and is followed by the
checker (``checker.py``), which must have had something to look at for every invariant that the row claims,
and by ``store check``.
``docs/failure-modes.md`` is made of the rows by ``make failures``.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from random import SystemRandom
from typing import Any, TypeVar

import pytest

from backstay.domain.durations import duration
from tests.chaos.checker import INVARIANTS, Finding, check
from tests.chaos.evidence import Facts, evidence_of, faults_of
from tests.chaos.history import lay_history
from tests.chaos.sampling import look, sampled
from tests.support.databases import Database

Test = TypeVar("Test", bound=Callable[..., Any])

FULL = os.environ.get("BACKSTAY_TEST_CHAOS") == "full"
SEED_VARIABLE = "BACKSTAY_TEST_SEED"
SEED = int(os.environ.get(SEED_VARIABLE) or SystemRandom().randrange(10**6))


class Part(StrEnum):
    """Which part of the whole fails; in the order of the page."""

    SCHEDULERS = "Schedulers"
    AGENTS = "Agents, and what they say"
    SUPERVISORS = "Supervisors"
    DOORS = "Where work comes in"
    DATABASE = "The database and the clock"
    LOAD = "Load, and services that do not answer"
    ALL = "Everything at once"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A row of the matrix."""

    name: str
    of: Part
    #: What a person notices who uses the system or watches it.
    seen: str
    #: What makes it well again, without a person.
    heals: str
    #: What decides how long that takes.
    takes: str
    #: How long it may take in the test, with the short leases of a test; the test asserts it.
    within: str
    invariants: tuple[int, ...]

    def __post_init__(self) -> None:
        assert self.invariants, f"{self.name} proves nothing"
        assert set(self.invariants) <= set(INVARIANTS), self.invariants
        duration(self.within, name="within")

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9]+", "_", self.name.lower()).strip("_")


def failure(
    name: str, *, of: Part, seen: str, heals: str, takes: str, within: str, invariants: Sequence[int]
) -> Callable[[Test], Test]:
    """Mark a test as the row ``name`` of the matrix; it is watched, and checked when it is over."""
    row = Failure(
        name=name, of=of, seen=seen, heals=heals, takes=takes, within=within, invariants=tuple(invariants)
    )

    def mark(test: Test) -> Test:
        assert row.slug in test.__name__, f"{test.__name__} is not named after {row.slug}"
        marked: Test = pytest.mark.failure(row)(pytest.mark.usefixtures("watch", "healing")(test))
        return marked

    return mark


def row_of(item: Any) -> Failure:
    """The row that a test carries."""
    marker = item.get_closest_marker("failure")
    assert marker is not None, f"{item} is no row of the matrix"
    [row] = marker.args
    assert isinstance(row, Failure)
    return row


class Watch:
    """Sees to it that the history of a store is written, and checks at the end all that is known."""

    def __init__(self, database: Database, row: Failure) -> None:
        self.database = database
        self.facts = Facts()
        #: Other stores of the same run, whose history is written as well, and what is known of each.
        self.others: list[tuple[Database, Facts]] = []
        self._row = row
        lay_history(database)

    def look(self) -> None:
        """What must be so at every moment is looked at now: in the midst of the faults as well."""
        look(self.database, self.facts)

    def check(self) -> None:
        looked_at = Counter[int]()
        for other, facts in self.others:
            looked_at.update(_looked_at(checked(other, facts)))
        claimed = set(self._row.invariants) - set(looked_at)
        looked_at.update(_looked_at(checked(self.database, self.facts, claimed=claimed)))
        print("looked at: " + ", ".join(f"{number}: {facts}" for number, facts in sorted(looked_at.items())))


def checked(
    database: Database, facts: Facts, *, claimed: Collection[int] = (), with_history: bool = True
) -> list[Finding]:
    """All that is looked at when a run is over: what invariants say, and what the store says of itself."""
    found = check(evidence_of(database, facts, with_history=with_history), claimed=claimed)
    faults = faults_of(database)
    assert faults == [], "\n".join(["rules of `store check` are broken:", *map(str, faults)])
    return found


def _looked_at(found: list[Finding]) -> dict[int, int]:
    return {one.number: one.looked_at for one in found if one.looked_at}


class Healing:
    """How long it took from a fault until all was well, which the row bounds."""

    def __init__(self, row: Failure, database: Database, facts: Facts) -> None:
        self._row = row
        self._database = database
        #: What the row promises: who waits for less, or for more, tests another promise.
        self.within_seconds = duration(row.within, name="within").total_seconds()
        self._facts = facts

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """From the fault, or the end of it, until all is well."""
        with sampled(self._database, self._facts):
            began = time.monotonic()
            yield
            took = time.monotonic() - began
        self._facts.healed.append((took, self.within_seconds))
        print(f"{self._row.name}: healed in {took:.1f} s")
        assert took <= self.within_seconds, (
            f"{self._row.name}: took {took:.1f} s, {self._row.within} are promised"
        )

    def was_measured(self) -> bool:
        return bool(self._facts.healed)
