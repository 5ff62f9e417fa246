"""A group and those who read for it, in rounds: as slow, late, stuck and mortal as processes are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from backstay.domain.ownership import Claim, Member, Ownership, Patience, moves
from backstay.domain.stream import Group, GroupStanding, Unit

GROUP = Group("telemetry", "archive")
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)

#: In rounds: how long the dead are taken for living, and how long others are waited for.
LEASE = 3
PATIENCE = 6
#: In rounds, at most: between two looks of a member, and from giving up to letting go.
PERIOD = 4
HANDING_OVER = 5


@dataclass
class Row:
    """A unit, as the store has it."""

    holder: str | None = None
    epoch: int = 0
    checkpoint: int = 0


@dataclass(eq=False)
class Reader:
    """A process. Its clock is its own: it runs ahead, behind, and not at the pace of others."""

    member: Member
    period: int = 1
    handing_over: int = 0
    stuck: bool = False
    outdated: bool = False
    pace: float = 1.0
    ahead: float = 0.0
    live: bool = True
    leaving: bool = False
    heard_of: int = 0
    held: dict[Unit, int] = field(default_factory=dict)
    #: Of each unit that it gives up, in how many rounds it lets go.
    leaves: dict[Unit, int] = field(default_factory=dict)
    seen: Ownership | None = None
    patience: Patience = field(default_factory=lambda: Patience(PATIENCE))

    @property
    def id(self) -> str:
        return self.member.id


class World:
    """The store and its readers. Says how many units changed hands in each round."""

    def __init__(self, units: Sequence[Unit], chance: Random) -> None:
        self.rows = {unit: Row() for unit in units}
        self.readers: dict[str, Reader] = {}
        self.round = 0
        self.refused = 0
        self._chance = chance
        self._holders: dict[tuple[Unit, int], str] = {}
        self._moved = 0

    # What happens to readers

    def join(self, *, claim: Claim | None = None, **how: object) -> None:
        number = len(self.readers)
        started_at = NOON + timedelta(seconds=number)
        member = Member(id=f"reader-{number}", started_at=started_at, claim=claim)
        self.readers[member.id] = Reader(member, heard_of=self.round, **how)  # type: ignore[arg-type]

    def living(self) -> list[Reader]:
        return [one for one in self.readers.values() if one.live and not one.leaving]

    def one_of_the_living(self) -> Reader | None:
        return self._chance.choice(self.living()) if self.living() else None

    def kill(self) -> None:
        if (one := self.one_of_the_living()) is not None:
            one.live = False

    def stop(self) -> None:
        """A graceful end: it leaves, and lets go of everything when that is finished."""
        if (one := self.one_of_the_living()) is not None:
            one.leaving = True
            for unit in one.held:
                one.leaves.setdefault(unit, one.handing_over)

    def pause(self, rounds: int) -> None:
        """It stands still: others take it for dead, and it knows nothing of that."""
        if (one := self.one_of_the_living()) is not None:
            one.heard_of = self.round + rounds

    # Rounds

    def turn(self) -> int:
        self.round += 1
        self._moved = 0
        readers = [one for one in self.readers.values() if one.live and one.heard_of <= self.round]
        self._chance.shuffle(readers)
        for reader in readers:
            reader.heard_of = self.round
            self._write(reader)
            self._let_go(reader)
            if not reader.leaving and self.round % reader.period == 0:
                self._look(reader)
        return self._moved

    def _write(self, reader: Reader) -> None:
        """Advance in all that it believes to hold: what was taken from it is refused, and dropped."""
        for unit, epoch in [*reader.held.items()]:
            row = self.rows[unit]
            if (row.holder, row.epoch) == (reader.id, epoch):
                row.checkpoint += 1
            else:
                assert row.epoch > epoch, "who was not displaced is not refused"
                self.refused += 1
                del reader.held[unit]
                reader.leaves.pop(unit, None)

    def _let_go(self, reader: Reader) -> None:
        for unit, rounds in [*reader.leaves.items()]:
            reader.leaves[unit] = rounds - 1
            if rounds <= 0 and not reader.stuck:
                self.rows[unit].holder = None
                del reader.held[unit], reader.leaves[unit]

    def _look(self, reader: Reader) -> None:
        before, reader.seen = reader.seen, self.ownership(reader)
        seen = before if reader.outdated and before is not None else reader.seen
        wanted = moves(seen, reader.id)
        now = reader.ahead + self.round * reader.pace
        for one in (*wanted.take, *reader.patience.ended(wanted.awaited, seen=seen, now=now)):
            self._take(reader, one)
        for unit in wanted.give_up:
            if unit in reader.held:
                reader.leaves.setdefault(unit, reader.handing_over)

    def _take(self, reader: Reader, one: GroupStanding) -> None:
        row = self.rows[one.unit]
        if row.epoch != one.epoch:
            return
        row.holder, row.epoch = reader.id, row.epoch + 1
        assert self._holders.setdefault((one.unit, row.epoch), reader.id) == reader.id
        reader.held[one.unit] = row.epoch
        reader.leaves.pop(one.unit, None)
        self._moved += 1

    # What everybody sees

    def ownership(self, by: Reader | None = None) -> Ownership:
        alive = {one.id for one in self._alive()} | ({by.id} if by is not None else set())
        members = [one.member for one in self.readers.values() if one.id in alive and not one.leaving]
        return Ownership(members, [*self._units(alive)])

    def _alive(self) -> list[Reader]:
        return [one for one in self.readers.values() if self.round - one.heard_of <= LEASE]

    def _units(self, alive: set[str]) -> Iterator[GroupStanding]:
        for unit, row in sorted(self.rows.items()):
            yield GroupStanding(
                group=GROUP,
                partition=unit.partition,
                slot=unit.slot,
                checkpoint=row.checkpoint,
                holder=row.holder if row.holder in alive else None,
                epoch=row.epoch,
                updated_at=NOON,
            )

    def loads(self) -> Counter[str]:
        """How many units each member holds, as the store has it."""
        return Counter(
            {one.id: sum(row.holder == one.id for row in self.rows.values()) for one in self.living()}
        )
