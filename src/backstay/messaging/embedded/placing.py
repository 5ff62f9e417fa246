"""Which offset each event of a commit gets, and which of them are known already.

Offsets follow one another from the end of a partition on, as it stands under the write lock of the file: so
several processes may append.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from backstay.domain.stream import Appended, NewEvent, partition_of
from backstay.errors import BackstayError, EventConflict, StreamFull, UnknownStream
from backstay.messaging.embedded.rows import (
    OFFSET_BITS,
    as_json,
    base_of,
    digest_of,
    headers_of,
    offset_of,
    size_of,
)
from backstay.messaging.embedded.tables import Tables

Answers = list[Appended | BackstayError]
#: Told what became of an append, on the event loop.
Settle = Callable[[Answers | BackstayError], None]
#: Of each stream whose turn it is among its partitions; events with neither key nor id go by turns.
Turns = defaultdict[int, int]

#: As they are written: place, instant, key, id, headers, body; and id, instant, digest, place.
Row = tuple[int, int, str | None, str | None, str | None, bytes]
IdRow = tuple[str, int, int, int]

_decode_states: Final = msgspec.json.Decoder(
    list[tuple[int, str, int, int, list[tuple[int, int, int, int]], list[tuple[int, int]]]]
).decode
_decode_ids: Final = msgspec.json.Decoder(list[tuple[int, str, int, int, int]]).decode


class Append(msgspec.Struct):
    """Some events for one stream, on their way into a commit."""

    stream: str
    events: Sequence[NewEvent]
    at: int  # In microseconds.
    bytes: int  # Of the bodies: what is counted while it waits, and asked room for.
    settle: Settle


@dataclass(slots=True)
class Known:
    """An id that was appended before, or just now."""

    appended_at: int
    digest: int
    partition: int
    offset: int


@dataclass(slots=True)
class State:
    """A stream in the middle of a commit."""

    key: int
    bytes_max: int
    dedup: int  # In microseconds.
    keys: list[int]
    ends: list[int]
    sizes: list[int]
    held: int  # All sizes together.
    slots: list[tuple[int, int]]
    known: dict[str, Known] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)

    @property
    def mark(self) -> tuple[int, ...]:
        """What would differ if another process had written: no end moves back, so that their sum tells."""
        return self.key, self.bytes_max, self.dedup, self.held, sum(self.ends)

    def committed(self) -> None:
        """What was added is there: from now on this is how the stream stands."""
        self.known.clear()
        self.changed.clear()

    def open_slot(self, at: int) -> int | None:
        """The slot that takes ids of this instant."""
        return next((key for key, until in self.slots if until > at), None)

    def is_past(self, at: int) -> bool:
        """Whether there are ids that no longer count at this instant."""
        return any(until <= at - self.dedup for _, until in self.slots)


class Placing:
    """Gives offsets, and gathers the rows that are to be written."""

    def __init__(self, tables: Tables, states: dict[str, State], turns: Turns) -> None:
        self.states = states
        self.rows: list[Row] = []
        #: Of streams, the ids of what is appended to them.
        self.ids: defaultdict[str, list[IdRow]] = defaultdict(list)
        self._tables = tables
        self._turns = turns

    def append_all(self, appends: Sequence[Append]) -> list[Answers | BackstayError]:
        """The answer to each, once the rows are written."""
        _look_up(self._tables, appends, self.states)
        return [self._append(append) for append in appends]

    def _append(self, append: Append) -> Answers | BackstayError:
        state = self.states.get(append.stream)
        if state is None:
            return UnknownStream(append.stream)
        if not _fits(state, append):
            return StreamFull(append.stream, bytes_max=state.bytes_max)
        answers: Answers = []
        for event in append.events:
            if event.id is None or not state.dedup:
                answers.append(self._place(state, event, append.at))
            else:
                answers.append(self._once(state, event, event.id, append))
        return answers

    @property
    def moved(self) -> list[tuple[int, int, int]]:
        """Of each partition that changes: its key, where it ends, and its size."""
        return [
            (state.keys[number], state.ends[number], state.sizes[number])
            for state in self.states.values()
            for number in state.changed
        ]

    def _place(self, state: State, event: NewEvent, at: int) -> Appended:
        turn = 0
        if event.key is None and event.id is None:
            turn = self._turns[state.key]
            self._turns[state.key] = turn + 1
        number = partition_of(event, len(state.keys), turn=turn)
        offset = state.ends[number]
        headers = headers_of(event)
        size = size_of(event, headers)
        state.ends[number] = offset + 1
        state.sizes[number] += size
        state.held += size
        state.changed.add(number)
        place = (state.keys[number] << OFFSET_BITS) + offset
        self.rows.append((place, at, event.key, event.id, headers, event.body))
        return Appended(number, offset)

    def _once(self, state: State, event: NewEvent, id: str, append: Append) -> Appended | BackstayError:
        digest = digest_of(event)
        known = state.known.get(id)
        if known is not None and known.appended_at > append.at - state.dedup:
            if known.digest != digest:
                return EventConflict(append.stream, id)
            return Appended(known.partition, known.offset, duplicate=True)
        appended = self._place(state, event, append.at)
        state.known[id] = Known(append.at, digest, appended.partition, appended.offset)
        place = base_of(state.keys[appended.partition]) + appended.offset
        self.ids[append.stream].append((id, append.at, digest, place))
        return appended


def states_of(tables: Tables, names: set[str]) -> dict[str, State]:
    """Those of the streams that there are."""
    [found] = tables.one("states", names=as_json(names))
    states = {}
    for key, name, bytes_max, dedup, partitions, slots in _decode_states(found):
        partitions.sort(key=lambda one: one[1])
        keys, _, ends, sizes = map(list, zip(*partitions, strict=True))
        states[name] = State(key, bytes_max, dedup, keys, ends, sizes, sum(sizes), slots)
    return states


def _look_up(tables: Tables, appends: Sequence[Append], states: dict[str, State]) -> None:
    """Find which ids are known: one query for all of them, none if there are none."""
    wanted = [
        (state.key, event.id)
        for append in appends
        if (state := states.get(append.stream)) is not None and state.slots and state.dedup
        for event in append.events
        if event.id is not None
    ]
    if not wanted:
        return
    by_key = {state.key: state for state in states.values()}
    numbers = {key: number for state in states.values() for number, key in enumerate(state.keys)}
    [found] = tables.one("find_ids", wanted=as_json(wanted))
    for key, name, appended_at, digest, place in _decode_ids(found):
        state = by_key[key]
        known = state.known.get(name)
        if known is None or known.appended_at < appended_at:
            number = numbers[place >> OFFSET_BITS]
            state.known[name] = Known(appended_at, digest, number, offset_of(place))


def _fits(state: State, append: Append) -> bool:
    if state.held + append.bytes <= state.bytes_max:
        return True
    # What is known already takes no room, and is answered even when there is none.
    new = [event for event in append.events if event.id is None or event.id not in state.known]
    return not new or state.held + sum(len(event.body) for event in new) <= state.bytes_max
