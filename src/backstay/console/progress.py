"""How far groups have got in streams, and how fast: what the pages of streams show.

Pure: made of how streams stand now, and of how they stood when they were looked at before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from backstay.streamroom import GroupView, StreamView

#: A lag as long as the bar, unless one that is shown is larger: fewer events are nothing to look at.
BAR_EVENTS_LEAST: Final = 1_000

#: So many groups are shown in each partition; one that is asked for by its name always.
GROUPS_SHOWN: Final = 20

#: A pace is taken over so long, as looks allow: a checkpoint is written every few seconds only.
PACE_SECONDS: Final = 15.0
MARKS_MAX: Final = 20

_KILO: Final = 1_000
#: A size from which on nobody reads its tenths.
_LARGE: Final = 10


class Pace(msgspec.Struct, frozen=True):
    """How many events a second were appended, and how many each group passed."""

    appended: float
    passed: dict[str, float]


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group over all partitions of a stream."""

    name: str
    # How it stands, in a word, and the state whose sign and colour that has.
    word: str
    sign: str
    lag: int
    # The partition in which most is to be passed, and how much that is.
    furthest: int | None
    furthest_lag: int
    # How long the first event that is to be passed has been there.
    waits: timedelta | None
    moved: datetime
    quarantined: int
    passed: float | None


class StreamRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stream, and the groups that read it."""

    name: str
    partitions: int
    events: int
    size: str
    size_max: str
    appended: float | None
    groups: list[GroupRow]


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group has got in one partition: as far as all of its readers there have."""

    group: str
    owners: list[str]
    # How many of the readers that share the partition are missing.
    unread: int
    checkpoint: int | None
    lag: int
    # Of the bar, in percent.
    width: float
    waits: timedelta | None
    moved: datetime


class PartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A partition, and how far groups have got in it."""

    partition: int
    first: int
    end: int
    size: str
    readings: list[Reading]


def stream_row(view: StreamView, pace: Pace | None = None) -> StreamRow:
    return StreamRow(
        name=view.name,
        partitions=len(view.partitions),
        events=sum(one.end - one.first for one in view.partitions),
        size=size_text(sum(one.bytes for one in view.partitions)),
        size_max=size_text(view.bytes_max),
        appended=None if pace is None else pace.appended,
        groups=[_group_row(view, name, units, pace) for name, units in _by_group(view.groups).items()],
    )


def partition_rows(
    view: StreamView, *, start: int, limit: int, group: str | None = None
) -> list[PartitionRow]:
    """``limit`` partitions from ``start`` on, with the readings of ``group``, or of the first groups."""
    shown = [group] if group is not None else list(_by_group(view.groups))[:GROUPS_SHOWN]
    units = [one for one in view.groups if one.group in shown]
    scale = max([BAR_EVENTS_LEAST, *(one.lag for one in units)])
    readings: dict[int, dict[str, list[GroupView]]] = {}
    for one in units:
        readings.setdefault(one.partition, {}).setdefault(one.group, []).append(one)
    return [
        PartitionRow(
            partition=one.partition,
            first=one.first,
            end=one.end,
            size=size_text(one.bytes),
            readings=[_reading(units, scale) for units in readings.get(one.partition, {}).values()],
        )
        for one in view.partitions[start : start + limit]
    ]


def size_text(number: int) -> str:
    """So many bytes in their largest unit."""
    size, units = float(number), ["B", "kB", "MB", "GB", "TB"]
    while size >= _KILO and len(units) > 1:
        size, units = size / _KILO, units[1:]
    return f"{size:.1f} {units[0]}" if number >= _KILO and size < _LARGE else f"{size:.0f} {units[0]}"


# Groups


def _by_group(units: Iterable[GroupView]) -> dict[str, list[GroupView]]:
    found: dict[str, list[GroupView]] = {}
    for one in units:
        found.setdefault(one.group, []).append(one)
    return found


def _slowest(units: Iterable[GroupView]) -> list[GroupView]:
    """Of each partition the reader that is furthest behind."""
    found: dict[int, GroupView] = {}
    for one in units:
        if one.partition not in found or one.lag > found[one.partition].lag:
            found[one.partition] = one
    return [*found.values()]


def _group_row(view: StreamView, name: str, units: Sequence[GroupView], pace: Pace | None) -> GroupRow:
    slowest = _slowest(units)
    behind = [one for one in slowest if one.lag]
    furthest = max(behind, key=lambda one: one.lag, default=None)
    word, sign = _stand(units, is_behind=bool(behind))
    return GroupRow(
        name=name,
        word=word,
        sign=sign,
        lag=sum(one.lag for one in behind),
        furthest=None if furthest is None else furthest.partition,
        furthest_lag=0 if furthest is None else furthest.lag,
        waits=_longest(behind),
        moved=_moved(slowest),
        quarantined=view.quarantined.get(name, 0),
        passed=None if pace is None else pace.passed.get(name),
    )


def _stand(units: Sequence[GroupView], *, is_behind: bool) -> tuple[str, str]:
    unread = sum(one.owner is None for one in units)
    if unread:
        word = "nobody reads" if unread == len(units) else f"{unread:,} of {len(units):,} have no reader"
        return word, "error" if is_behind else "waiting"
    return ("reading", "processing") if is_behind else ("caught up", "processed")


def _longest(behind: Iterable[GroupView]) -> timedelta | None:
    seconds = max((one.lag_seconds for one in behind), default=None)
    return None if seconds is None else timedelta(seconds=seconds)


def _moved(units: Sequence[GroupView]) -> datetime:
    """Where something is to be passed, when that last went on longest ago; else when anything did."""
    behind = [one.checkpoint_at for one in units if one.lag]
    return min(behind) if behind else max(one.checkpoint_at for one in units)


def _reading(units: Sequence[GroupView], scale: int) -> Reading:
    [slowest] = _slowest(units)
    owners = {one.owner: None for one in units if one.owner is not None}
    return Reading(
        group=slowest.group,
        owners=[*owners],
        unread=sum(one.owner is None for one in units),
        checkpoint=slowest.checkpoint,
        lag=slowest.lag,
        width=round(100 * slowest.lag / scale, 2),
        waits=_longest([slowest]) if slowest.lag else None,
        moved=_moved(units),
    )


# Pace


class Paces:
    """How fast streams are: from what moved between looks at them."""

    def __init__(self) -> None:
        self._marks: deque[_Mark] = deque(maxlen=MARKS_MAX)
        self._views: Sequence[StreamView] | None = None

    def of(self, views: Sequence[StreamView], *, monotonic: float) -> Mapping[str, Pace]:
        """By the names of streams; a stream that is seen for the first time has none yet."""
        if views is not self._views:  # Else nobody has looked anew.
            self._views = views
            self._marks.append(_Mark(monotonic, {view.name: _position(view) for view in views}))
        newest = self._marks[-1]
        long_ago = (one for one in reversed(self._marks) if newest.monotonic - one.monotonic >= PACE_SECONDS)
        return _between(next(long_ago, self._marks[0]), newest)


class _Position(msgspec.Struct, frozen=True):
    """Offsets over all partitions: of the end, and of what each group has passed."""

    end: int
    passed: dict[str, int]


class _Mark(msgspec.Struct, frozen=True):
    """How streams stood at a moment."""

    monotonic: float
    positions: dict[str, _Position]


def _position(view: StreamView) -> _Position:
    ends = {one.partition: one.end for one in view.partitions}
    passed: dict[str, int] = {}
    for name, units in _by_group(view.groups).items():
        passed[name] = sum(ends.get(one.partition, 0) - one.lag for one in _slowest(units))
    return _Position(sum(ends.values()), passed)


def _between(before: _Mark, after: _Mark) -> dict[str, Pace]:
    if before is after:
        return {}
    seconds = max(after.monotonic - before.monotonic, 1e-3)

    def rate(first: int, last: int) -> float:
        return max(0, last - first) / seconds

    return {
        name: Pace(
            rate(before.positions[name].end, now.end),
            {
                group: rate(before.positions[name].passed[group], passed)
                for group, passed in now.passed.items()
                if group in before.positions[name].passed
            },
        )
        for name, now in after.positions.items()
        if name in before.positions
    }
