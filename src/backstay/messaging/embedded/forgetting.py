"""What is removed: the oldest first, a bounded number at a time."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from backstay.messaging.embedded.rows import as_json, offset_of
from backstay.messaging.embedded.tables import Tables

# Removed by one transaction at the most: appends do not wait long behind it.
STEP: Final = 1_000
# Looked at in each partition for that, however many there are.
LOOKED_AT_LEAST: Final = 16

# A stream is full at its limit; room is made from this part of it on, before that hurts anybody.
FILLED_PERCENT: Final = 90

# Pages are given back to the file system when a quarter of the file, and so many of them, are free: what
# comes and goes in a steady stream keeps its place.
FREE_SHARE: Final = 4
FREE_PAGES_LEAST: Final = 4_096
PAGES_GIVEN_BACK: Final = 1_024


class Old(NamedTuple):
    """An event that might go."""

    partition_key: int
    number: int
    place: int
    at: int
    bytes: int


_decode_old: Final = msgspec.json.Decoder(list[Old]).decode


def trim(tables: Tables, name: str, floors: Mapping[int, int], *, now: int, limit: int) -> int:
    """Remove up to ``limit`` events that may go; how many that were. Runs inside a transaction.

    Fewer may go than there are: who asks again until there are none misses none.
    """
    found = tables.one("find_stream", name=name)
    if found is None:
        return 0
    key, _, partitions, retention, bytes_max, dedup = found
    forget_ids(tables, key, before=now - dedup, limit=limit)
    each = max(LOOKED_AT_LEAST, 2 * limit // partitions)
    old = _decode_old(tables.one("first_events", stream=key, each=each)[0])
    [held] = tables.one("stream_size", stream=key)
    gone = removable(
        old,
        floors,
        each=each,
        before=now - retention,
        excess=held - bytes_max * FILLED_PERCENT // 100,
        limit=limit,
    )
    if gone:
        _remove(tables, gone)
    return len(gone)


def removable(
    old: Iterable[Old], floors: Mapping[int, int], *, each: int, before: int, excess: int, limit: int
) -> list[Old]:
    """Those below their floors that are too old, or more than there is room for: the oldest of all first.

    ``each`` are known of a partition at the most. Where all of those go, the next one is not known, nor
    whether it would be next: there it ends.
    """
    lines: defaultdict[int, list[Old]] = defaultdict(list)
    for one in old:
        lines[one.number].append(one)
    ends = {line[-1].place for line in lines.values() if len(line) == each}
    below = (
        [one for one in line if offset_of(one.place) < floors.get(number, offset_of(one.place) + 1)]
        for number, line in lines.items()
    )
    gone: list[Old] = []
    for one in heapq.merge(*below, key=lambda one: (one.at, one.place)):
        if len(gone) == limit or (one.at >= before and excess <= 0):
            break
        gone.append(one)
        excess -= one.bytes
        if one.place in ends:
            break
    return gone


def forget_ids(tables: Tables, stream_key: int, *, before: int, limit: int) -> None:
    """Forget ids that no longer count, up to ``limit`` of the oldest slot."""
    past = tables.one("past_slot", stream=stream_key, before=before)
    if past is None:
        return
    [slot] = past
    if tables.run("forget_ids", slot=slot, limit=limit).rowcount < limit:
        tables.run("forget_slot", slot=slot)


def give_back(tables: Tables) -> None:
    """Make the file smaller, by a bounded number of pages, when much of it is empty.

    Runs outside of a transaction: only a script takes this statement past its first page.
    """
    connection = tables.connection
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    [free] = connection.execute("PRAGMA freelist_count").fetchone()
    if free >= FREE_PAGES_LEAST and free * FREE_SHARE >= pages:
        connection.executescript(f"PRAGMA incremental_vacuum({PAGES_GIVEN_BACK})")


def _remove(tables: Tables, gone: list[Old]) -> None:
    firsts: dict[int, int] = {}
    sizes: defaultdict[int, int] = defaultdict(int)
    for one in gone:
        firsts[one.partition_key] = offset_of(one.place) + 1
        sizes[one.partition_key] += one.bytes
    tables.run("delete_events", places=as_json([one.place for one in gone]))
    tables.run("move_firsts", moved=as_json([(key, first, sizes[key]) for key, first in firsts.items()]))
