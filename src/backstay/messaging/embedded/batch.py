"""Writes what was handed in: with one statement where that can be, else step by step.

A thread that runs a statement gives up the interpreter lock, and has to get it back from a busy event loop.
So one statement for all of a batch, commit included, is what makes small batches quick. It goes by what the
last commit of this process left, and is refused when another process has written since.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from backstay.errors import BackstayError
from backstay.messaging.embedded.forgetting import forget_ids
from backstay.messaging.embedded.placing import (
    Answers,
    Append,
    IdRow,
    Placing,
    State,
    Turns,
    states_of,
)
from backstay.messaging.embedded.rows import as_json
from backstay.messaging.embedded.tables import Tables
from backstay.sql.sqlite.connection import REFUSALS

# What goes into one statement. Of more than that, binding row by row is the quicker way.
PLAIN_EVENTS_MAX: Final = 2_000
PLAIN_BYTES_MAX: Final = 1024 * 1024

# A slot takes ids for this part of the window, and goes when the youngest of them is too old.
SLOTS_PER_WINDOW: Final = 2
# For each id that is added so many are forgotten that no longer count: there are never many of them.
FORGOTTEN_PER_ID: Final = 2
FORGOTTEN_LEAST: Final = 100

#: The answer to each append.
Answered = list[Answers | BackstayError]
#: Runs its argument within a transaction.
Transaction = Callable[[Callable[[Tables], Answered]], Answered]


class Batches:
    """The batches of one writer, one after the other."""

    def __init__(self, tables: Tables, transaction: Transaction, boundary: Callable[[str], None]) -> None:
        """``boundary`` is called around each commit, as that of a transaction is."""
        self._tables = tables
        self._transaction = transaction
        self._boundary = boundary
        self._turns: Turns = defaultdict(int)
        # Streams as the last commit left them.
        self._seen: dict[str, State] = {}

    def forget(self) -> None:
        """Something else was written: what was seen may have changed."""
        self._seen = {}

    def append(self, appends: Sequence[Append]) -> Answered:
        """Append what was handed in. Raises sqlite3.Error, and then nothing is written."""
        names = {append.stream for append in appends}
        # Whatever goes wrong from here on, nothing of it counts as seen.
        known, self._seen = self._seen, {}
        states = {name: known[name] for name in names if name in known}
        turns = self._turns.copy()
        is_plain = len(states) == len(names) and _is_small(appends)
        answers = self._plainly(appends, states) if is_plain else None
        if answers is None:
            states.clear()
            self._turns = turns
            answers = self._transaction(lambda tables: self._step_by_step(tables, appends, states))
        for state in states.values():
            state.committed()
        self._seen = {name: state for name, state in known.items() if name not in names} | states
        return answers

    # With one statement

    def _plainly(self, appends: Sequence[Append], states: dict[str, State]) -> Answered | None:
        """None, and nothing is written, if there is more to it."""
        seen = [one.mark for one in states.values()]
        placing = Placing(self._tables, states, self._turns)
        answers = placing.append_all(appends)
        ids = _with_slots(placing)
        if ids is None:
            return None
        # Side by side as they will lie, here as below: half as much to look for.
        rows = sorted(placing.rows)
        bodies = [row[5] for row in rows]
        self._boundary("before")
        try:
            self._tables.run_at_once(
                "write_batch",
                seen=as_json(seen),
                moved=as_json(placing.moved),
                events=as_json([(*row[:5], *cut) for row, cut in zip(rows, _cuts(bodies), strict=True)]),
                bodies=b"".join(bodies),
                ids=as_json(ids),
            )
        except REFUSALS:
            return None
        self._boundary("after")
        return answers

    # Step by step

    def _step_by_step(self, tables: Tables, appends: Sequence[Append], states: dict[str, State]) -> Answered:
        """Runs inside a transaction. What it finds is put into ``states``."""
        states |= states_of(tables, {append.stream for append in appends})
        placing = Placing(tables, states, self._turns)
        answers = placing.append_all(appends)
        if placing.rows:
            tables.run_rows("insert_events", sorted(placing.rows))
            tables.run("move_ends", moved=as_json(placing.moved))
        for stream, ids in placing.ids.items():
            _remember(tables, states[stream], ids)
        return answers


def prepare(connection: sqlite3.Connection, queries: Mapping[str, str]) -> None:
    """What a connection needs to write a batch as one statement; nothing of it is in the file."""
    connection.execute(queries["batch_view"])
    connection.execute(queries["batch_trigger"])


def _is_small(appends: Sequence[Append]) -> bool:
    events = sum([len(append.events) for append in appends])
    return events <= PLAIN_EVENTS_MAX and sum([append.bytes for append in appends]) <= PLAIN_BYTES_MAX


def _cuts(bodies: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Where each is when they are one piece: from which byte on, as SQL counts, and how many."""
    begin = 1
    for body in bodies:
        yield begin, len(body)
        begin += len(body)


def _with_slots(placing: Placing) -> list[tuple[Any, ...]] | None:
    """The rows of ids; None where a slot is to be opened, or others are to be forgotten."""
    rows: list[tuple[Any, ...]] = []
    for stream, ids in placing.ids.items():
        state, newest = placing.states[stream], _newest(ids)
        slot = state.open_slot(newest)
        if slot is None or state.is_past(newest):
            return None
        rows += [(slot, *row) for row in sorted(ids)]
    return rows


def _remember(tables: Tables, state: State, ids: list[IdRow]) -> None:
    newest = _newest(ids)
    slot = state.open_slot(newest)
    if slot is None:
        until = newest + max(1, state.dedup // SLOTS_PER_WINDOW)
        [slot] = tables.one("insert_slot", stream=state.key, until=until)
        state.slots.append((slot, until))
    # As events: pages that lie side by side are written one after the other.
    tables.run_rows("insert_ids", [(slot, *row) for row in sorted(ids)])
    if state.is_past(newest):
        limit = max(FORGOTTEN_LEAST, FORGOTTEN_PER_ID * len(ids))
        forget_ids(tables, state.key, before=newest - state.dedup, limit=limit)


def _newest(ids: Sequence[IdRow]) -> int:
    return max(at for _, at, _, _ in ids)
