"""What is removed: the oldest first, a bounded number at a time."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from backstay.messaging.embedded.rows import base_of, offset_of
from backstay.messaging.embedded.tables import Tables

# Removed by one transaction: appends do not wait long behind it.
STEP: Final = 1_000
# Of one partition before the others are looked at again: so exactly is the order of age kept among them.
RUN: Final = 100

# A stream is full at its limit; room is made from this part of it on, before that hurts anybody.
FILLED_PERCENT: Final = 90

# Pages are given back to the file system when at least a quarter of the file, and so many of them, are free:
# what comes and goes in a steady stream keeps its place.
FREE_SHARE: Final = 4
FREE_PAGES_LEAST: Final = 4_096
PAGES_GIVEN_BACK: Final = 1_024

_decode_heads: Final = msgspec.json.Decoder(list[tuple[int, int, int, int, int, int]]).decode
_decode_events: Final = msgspec.json.Decoder(list[tuple[int, int, int]]).decode

#: An event's place, when it came, and what it counts for.
Old = tuple[int, int, int]


def trim(tables: Tables, name: str, floors: Mapping[int, int], *, now: int, limit: int) -> int:
    """Remove up to ``limit`` events that may go; how many that were. Runs inside a transaction."""
    found = tables.one("find_stream", name=name)
    if found is None:
        return 0
    key, _, _, retention, bytes_max, dedup = found
    forget_ids(tables, key, before=now - dedup, limit=limit)
    heads = _decode_heads(tables.one("heads", stream=key)[0])
    excess = sum(head[4] for head in heads) - bytes_max * FILLED_PERCENT // 100
    line = []
    for number, partition_key, first, end, _, at in heads:
        base = base_of(partition_key)
        line.append((at, base + first, base + min(end, floors.get(number, end)), partition_key))
    heapq.heapify(line)
    left = limit
    while line and left:
        at, start, stop, partition_key = heapq.heappop(line)
        if at >= now - retention and excess <= 0:
            break  # The oldest of all stays, and so does everything else.
        [rows] = tables.one("first_events", start=start, stop=stop, limit=min(RUN, left) + 1)
        events = _decode_events(rows)
        gone = removable(events[: min(RUN, left)], before=now - retention, excess=excess)
        if not gone:
            continue  # Somebody has yet to read it.
        _remove(tables, partition_key, gone)
        left -= len(gone)
        excess -= sum(size for _, _, size in gone)
        if len(gone) < len(events):
            next_place, next_at, _ = events[len(gone)]
            heapq.heappush(line, (next_at, next_place, stop, partition_key))
    return limit - left


def removable(events: Sequence[Old], *, before: int, excess: int) -> Sequence[Old]:
    """Those at the beginning that are too old, or more than there is room for."""
    for count, (_, at, size) in enumerate(events):
        if at >= before and excess <= 0:
            return events[:count]
        excess -= size
    return events


def forget_ids(tables: Tables, stream_key: int, *, before: int, limit: int) -> None:
    """Forget ids that no longer count, up to ``limit`` of the oldest slot."""
    past = tables.one("past_slot", stream=stream_key, before=before)
    if past is None:
        return
    [slot] = past
    if tables.run("forget_ids", slot=slot, limit=limit).rowcount < limit:
        tables.run("forget_slot", slot=slot)


def give_back(tables: Tables) -> None:
    """Make the file smaller, by a bounded number of pages, when much of it is empty."""
    connection = tables.connection
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    [free] = connection.execute("PRAGMA freelist_count").fetchone()
    if free >= FREE_PAGES_LEAST and free * FREE_SHARE >= pages:
        connection.execute(f"PRAGMA incremental_vacuum({PAGES_GIVEN_BACK})").fetchall()


def _remove(tables: Tables, partition_key: int, gone: Sequence[Old]) -> None:
    first, last = gone[0][0], gone[-1][0]
    tables.run("delete_events", start=first, stop=last + 1)
    tables.run(
        "move_first",
        key=partition_key,
        first=offset_of(last) + 1,
        bytes=sum(size for _, _, size in gone),
    )
