"""The units of a group, as whoever joins it finds or makes them, whatever the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from backstay.domain.ownership import Ownership
from backstay.domain.stream import Group, GroupStanding
from backstay.errors import ReadersDiffer


class NewUnit(NamedTuple):
    partition: int
    slot: int
    checkpoint: int | None
    epoch: int


class NewUnits(NamedTuple):
    """What is to be made; ``anew``: instead of all that there are."""

    units: Sequence[NewUnit]
    anew: bool = False


def units_to_make(group: Group, seen: Ownership, *, partitions: int, readers: int, me: str) -> NewUnits:
    """Raises ReadersDiffer while others read with another number of readers."""
    slots = 1 + max((one.slot for one in seen.units), default=readers - 1)
    known = {one.unit for one in seen.units}
    if slots == readers:
        wanted = [(partition, slot) for partition in range(partitions) for slot in range(readers)]
        return NewUnits([NewUnit(*unit, checkpoint=None, epoch=0) for unit in wanted if unit not in known])
    read_by = {one.id for one in seen.members} | {one.holder for one in seen.units if one.holder is not None}
    if others := sorted(read_by - {me}):
        raise ReadersDiffer(group.stream, group.name, wanted=readers, there=slots, read_by=others)
    shared = [_shared(seen.units, partition, readers) for partition in range(partitions)]
    return NewUnits([one for units in shared for one in units], anew=True)


def _shared(there: Sequence[GroupStanding], partition: int, readers: int) -> list[NewUnit]:
    """A partition for another number of readers: from where the slowest was, under an epoch of its own."""
    old = [one for one in there if one.partition == partition]
    epoch = max((one.epoch for one in old), default=-1) + 1
    reached = [one.checkpoint for one in old if one.checkpoint is not None]
    checkpoint = min(reached) if reached and len(reached) == len(old) else None
    return [NewUnit(partition, slot, checkpoint, epoch) for slot in range(readers)]
