"""What the pages of streams show: how groups stand, how far they are behind, and how fast."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backstay.console.progress import (
    BAR_EVENTS_LEAST,
    GROUPS_SHOWN,
    Paces,
    partition_rows,
    size_text,
    stream_row,
)
from backstay.streamroom import GroupView, PartitionView, StreamView
from backstay.testing.records import NOON

LATER = NOON + timedelta(seconds=30)


def reads(partition: int = 0, *, end: int = 100, **fields: object) -> GroupView:
    """A reader that has passed everything, unless ``lag`` says otherwise."""
    lag = int(str(fields.get("lag", 0)))
    common = {
        "group": "billing",
        "partition": partition,
        "slot": 0,
        "checkpoint": end - lag,
        "lag": lag,
        "lag_seconds": 7.0 if lag else 0.0,
        "owner": "here",
        "checkpoint_at": NOON,
    }
    return GroupView(**{**common, **fields})  # type: ignore[arg-type]


def stream(*groups: GroupView, partitions: int = 2, end: int = 100, name: str = "orders") -> StreamView:
    return StreamView(
        name=name,
        retention="7d",
        dedup="0s",
        bytes_max=8_000_000_000,
        partitions=[
            PartitionView(partition=number, first=0, end=end, bytes=1_500, owner=None)
            for number in range(partitions)
        ],
        groups=[*groups],
        quarantined={"billing": 3},
    )


# Groups


@pytest.mark.parametrize(
    ("readers", "word", "sign"),
    [
        ([reads(0), reads(1)], "caught up", "processed"),
        ([reads(0, lag=5), reads(1)], "reading", "processing"),
        ([reads(0, lag=5), reads(1, owner=None)], "1 of 2 have no reader", "error"),
        ([reads(0, owner=None), reads(1, owner=None)], "nobody reads", "waiting"),
        ([reads(0, owner=None), reads(1, owner=None, lag=1)], "nobody reads", "error"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_group_stands_by_who_reads_and_by_what_is_left_to_read(
    readers: list[GroupView], word: str, sign: str
):
    [group] = stream_row(stream(*readers)).groups

    assert (group.word, group.sign) == (word, sign)


def test_of_readers_that_share_a_partition_the_slowest_counts_once():
    view = stream(reads(0, lag=5), reads(0, slot=1, lag=40), reads(1, lag=20))

    [group] = stream_row(view).groups

    assert (group.lag, group.furthest, group.furthest_lag, group.quarantined) == (60, 0, 40, 3)


def test_a_checkpoint_moved_longest_ago_where_something_is_left_to_read():
    stuck = reads(0, lag=5, checkpoint_at=NOON)
    idle = reads(1, checkpoint_at=NOON - timedelta(hours=1))

    [behind] = stream_row(stream(stuck, reads(1, lag=1, checkpoint_at=LATER))).groups
    [beside] = stream_row(stream(stuck, idle)).groups
    [caught_up] = stream_row(stream(idle, reads(0, checkpoint_at=LATER))).groups

    assert (behind.moved, beside.moved, caught_up.moved) == (NOON, NOON, LATER)


# Partitions


def test_a_bar_is_as_long_as_the_largest_lag_but_a_small_lag_is_short():
    small = partition_rows(stream(reads(0, lag=10), reads(1)), start=0, limit=10)
    large = partition_rows(stream(reads(0, lag=4_000), reads(1, lag=1_000)), start=0, limit=10)

    assert [row.readings[0].width for row in small] == [100 * 10 / BAR_EVENTS_LEAST, 0]
    assert [row.readings[0].width for row in large] == [100, 25]


def test_partitions_come_a_part_at_a_time_and_as_one_group_reads_them():
    view = stream(reads(2), reads(3, group="archive"), partitions=5)

    rows = partition_rows(view, start=2, limit=2, group="billing")

    assert [(row.partition, [one.group for one in row.readings]) for row in rows] == [
        (2, ["billing"]),
        (3, []),
    ]


def test_a_partition_names_all_who_share_it_and_how_many_are_missing():
    view = stream(reads(0), reads(0, slot=1, owner="there"), reads(0, slot=2, owner=None), partitions=1)

    [row] = partition_rows(view, start=0, limit=1)

    [reading] = row.readings
    assert (reading.owners, reading.unread) == (["here", "there"], 1)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_500, "1.5 kB"),
        (20_000, "20 kB"),
        (8_589_934_592, "8.6 GB"),
        (10**16, "10000 TB"),
    ],
)
def test_a_size_is_said_in_its_largest_unit(number: int, text: str):
    assert size_text(number) == text


def test_of_many_groups_the_first_are_shown_and_any_by_its_name():
    view = stream(*(reads(group=f"g{number:02}") for number in range(25)), partitions=1)

    [some] = partition_rows(view, start=0, limit=1)
    [one] = partition_rows(view, start=0, limit=1, group="g24")

    assert [reading.group for reading in some.readings] == [f"g{number:02}" for number in range(GROUPS_SHOWN)]
    assert [reading.group for reading in one.readings] == ["g24"]


# Pace


def test_a_pace_is_known_from_the_second_look_on():
    paces = Paces()
    first = [stream(reads(0, lag=100), reads(1, lag=100))]
    second = [stream(reads(0, end=150, lag=140), reads(1, end=150, lag=120), end=150)]

    assert paces.of(first, monotonic=10.0) == {}
    assert paces.of(first, monotonic=12.0) == {}, "the same look tells nothing new"
    pace = paces.of(second, monotonic=20.0)["orders"]

    assert (pace.appended, pace.passed) == (10.0, {"billing": 4.0})


def test_a_pace_is_taken_over_a_while_since_checkpoints_are_written_now_and_then():
    paces = Paces()
    ends = {0: 100, 2: 100, 4: 200, 14: 200, 20: 500, 22: 500}

    seen = [paces.of([stream(end=end)], monotonic=float(at)) for at, end in ends.items()]

    assert [one["orders"].appended for one in seen[1:]] == [0, 50, 200 / 14, 600 / 16, 600 / 18]


def test_a_stream_that_is_new_has_no_pace_yet():
    paces = Paces()
    paces.of([stream()], monotonic=0.0)

    found = paces.of([stream(), stream(name="new")], monotonic=5.0)

    assert found.keys() == {"orders"}
