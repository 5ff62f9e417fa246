"""Looks at a store again and again while something is wrong: some things must be true at every moment."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from tests.chaos.checker import AT_ANY_MOMENT, INVARIANTS
from tests.chaos.evidence import Facts, evidence_of
from tests.support.databases import Database

#: More than a look takes: whoever works on the store is not to notice.
EVERY_SECONDS: Final = 0.25


def look(database: Database, facts: Facts) -> None:
    """One look; where the store cannot be asked now, none."""
    try:
        with database.moment() as moment:
            evidence = evidence_of(moment, Facts(), with_history=False)
    except (sqlite3.OperationalError, psycopg.Error):
        return
    for number in AT_ANY_MOMENT:
        _, invariant = INVARIANTS[number]
        facts.seen.setdefault(number, []).extend(invariant(evidence))


@contextmanager
def sampled(database: Database, facts: Facts) -> Iterator[None]:
    """A look at the beginning, and then from time to time until the body has ended."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(EVERY_SECONDS):
            look(database, facts)

    look(database, facts)
    thread = threading.Thread(target=watch, name="sampling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
