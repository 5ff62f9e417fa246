"""A stream as simple as it can be: a list for each partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from backstay.domain.stream import NewEvent, partition_of


@dataclass(frozen=True)
class Kept:
    partition: int
    offset: int
    event: NewEvent
    at: datetime


@dataclass
class LogModel:
    """What a stream does, said in the plainest way. It never gets full."""

    partitions: int
    retention: timedelta
    dedup: timedelta
    kept: list[Kept] = field(default_factory=list)
    appended: list[Kept] = field(default_factory=list)
    _turn: int = 0

    def append(self, event: NewEvent, now: datetime) -> tuple[int, int, bool] | None:
        """Where the event is, and whether it was there before; None: its id is that of another one."""
        for known in reversed(self.appended):
            if event.id is not None and known.event.id == event.id and known.at + self.dedup > now:
                same = (known.event.key, known.event.body) == (event.key, event.body)
                return (known.partition, known.offset, True) if same else None
        partition = partition_of(event, self.partitions, turn=self._turn)
        self._turn += event.key is None and event.id is None
        offset = sum(one.partition == partition for one in self.appended)
        one = Kept(partition, offset, event, now)
        self.kept.append(one)
        self.appended.append(one)
        return partition, offset, False

    def read(self, partition: int, start: int, limit: int) -> list[Kept]:
        return [one for one in self.kept if one.partition == partition and one.offset >= start][:limit]

    def trim(self, floors: dict[int, int], limit: int, now: datetime) -> int:
        old = [
            one
            for one in self.kept
            if one.at + self.retention < now and one.offset < floors.get(one.partition, one.offset + 1)
        ]
        # Among those of one instant the log goes by partition.
        old.sort(key=lambda one: (one.at, one.partition, one.offset))
        for one in old[:limit]:
            self.kept.remove(one)
        return len(old[:limit])
