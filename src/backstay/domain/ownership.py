"""Who of those that read for a group reads what: evenly shared, moved as little as possible.

    store:  members a, b, c and the holder of every unit
               │ everybody looks
               ▼
    shares():  whose each unit ought to be      the same for all who see the same
               │
               ▼
    moves():   mine, and free           take it
               mine, another has it     wait; it is giving it up. When patience ends, take it all the same
               another's, I have it     finish what is in hand, write the checkpoint, let go

Nobody asks anybody: who has more than its share sees that as soon as who has less. Once everybody has its
share the shares are what everybody has, and nothing moves any more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from backstay.domain.stream import GroupStanding, Holding, Unit

#: Of a group, at most.
MEMBERS_MOST: Final = 1_024

_ORDINAL: Final = re.compile(r"-(\d{1,6})$")


class Claim(msgspec.Struct, frozen=True):
    """A fixed share: of so many members this is the one with this number, counted from 0."""

    ordinal: int
    members: int

    def covers(self, number: int) -> bool:
        return number % self.members == self.ordinal


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that lives and reads for a group, whether it holds anything or not."""

    id: str
    started_at: datetime
    # None: it shares evenly with the others what nobody claims.
    claim: Claim | None = None


class Ownership(msgspec.Struct, frozen=True):
    """A group at one moment. A unit whose holder does not live, as far as the store can tell, has none."""

    members: Sequence[Member]
    # All there are, by partition and slot.
    units: Sequence[GroupStanding]


class Moves(msgspec.Struct, frozen=True):
    """What one member is to do now."""

    take: Sequence[GroupStanding] = ()
    give_up: Sequence[Unit] = ()
    # Others have yet to give these up for it.
    awaited: Sequence[GroupStanding] = ()


def moves(seen: Ownership, me: str) -> Moves:
    shared = shares(seen)
    due = [one for one in seen.units if shared.get(one.unit) == me and one.holder != me]
    free = {None, *_predecessors(seen.members, me)}
    return Moves(
        take=[one for one in due if one.holder in free],
        give_up=[one.unit for one in seen.units if one.holder == me and shared.get(one.unit) != me],
        awaited=[one for one in due if one.holder not in free],
    )


def shares(seen: Ownership) -> dict[Unit, str]:
    """Whose each unit ought to be. What is claimed is the claimant's, the rest is shared evenly."""
    claimed = _claimed(seen)
    rest = [one for one in seen.units if one.unit not in claimed]
    return claimed | _balanced(rest, [one.id for one in seen.members if one.claim is None])


def _claimed(seen: Ownership) -> dict[Unit, str]:
    """Where two claim the same, while members are replaced by others, the one that started last has it."""
    return {
        one.unit: member.id
        for member in _by_age(seen.members)
        if member.claim is not None
        for number, one in enumerate(seen.units)
        if member.claim.covers(number)
    }


def _balanced(units: Sequence[GroupStanding], members: Sequence[str]) -> dict[Unit, str]:
    """Each has as many as any other, or one more; and keeps of what it has as much as that allows."""
    held: dict[str, list[Unit]] = {member: [] for member in members}
    left: list[Unit] = []
    for one in units:
        held.get(one.holder or "", left).append(one.unit)
    quotas = _quotas({member: len(its) for member, its in held.items()}, len(units))
    for member, quota in quotas.items():
        left += held[member][quota:]
        del held[member][quota:]
    rest = iter(left)
    for member, quota in quotas.items():
        held[member] += [next(rest) for _ in range(quota - len(held[member]))]
    return {unit: member for member, its in held.items() for unit in its}


def _quotas(loads: Mapping[str, int], units: int) -> dict[str, int]:
    """How many each may have. One more than the least is for who has that: nothing moves but what must.

    Who has too many is no better than who has just enough: else the order would change while they give up.
    """
    if not loads:
        return {}
    least, more = divmod(units, len(loads))
    ranked = sorted(loads, key=lambda member: (-min(loads[member], least + 1), member))
    return {member: least + (rank < more) for rank, member in enumerate(ranked)}


def _predecessors(members: Iterable[Member], me: str) -> set[str]:
    """Those whose place this member has taken: a platform starts one of a number when the last is gone."""
    earlier: dict[Claim, set[str]] = {}
    for member in _by_age(members):
        if member.id == me:
            return set() if member.claim is None else earlier.get(member.claim, set())
        if member.claim is not None:
            earlier.setdefault(member.claim, set()).add(member.id)
    return set()


def _by_age(members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda one: (one.started_at, one.id))


class Patience:
    """Since when a member has waited for units that others have yet to give up."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: Mapping[tuple[Unit, int], float] = {}

    def ended(self, awaited: Sequence[GroupStanding], *, seen: Ownership, now: float) -> list[GroupStanding]:
        """What to take from its holder now, at most one: of the holder that has most, the one longest due.

        ``now`` is the member's own, in seconds: no two clocks are compared.
        """
        self._since = {(one.unit, one.epoch): self._since.get((one.unit, one.epoch), now) for one in awaited}
        due = [one for one in awaited if now - self._since[one.unit, one.epoch] >= self._seconds]
        if not due:
            return []
        loads = Counter(one.holder for one in seen.units)
        due.sort(key=lambda one: (-loads[one.holder], self._since[one.unit, one.epoch], one.unit))
        return due[:1]


def holding_of(one: GroupStanding) -> Holding:
    """What whoever holds this unit holds."""
    return Holding(
        group=one.group, partition=one.partition, slot=one.slot, epoch=one.epoch, checkpoint=one.checkpoint
    )


def ordinal_of(name: str) -> int | None:
    """The number that a StatefulSet gave a pod of this name, or None if it has none."""
    found = _ORDINAL.search(name)
    return None if found is None else int(found[1])
