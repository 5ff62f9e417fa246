"""What becomes of advances that are written together, whatever the database.

Together they are written entirely or not at all. Should one of them be refused, each is written by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from backstay.domain.alert import AlertKind, NewAlert
from backstay.domain.lease import Owner
from backstay.domain.message import NewMessage, Sent
from backstay.domain.stream import Group, NewQuarantined
from backstay.domain.target import group_target
from backstay.domain.task import NewTask
from backstay.errors import BackstayError, Conflict, InvalidInput, LeaseLost, QuarantineFull
from backstay.store.gathering import BATCH_BYTES_MAX
from backstay.store.groups import Advance, Advanced, Send

#: So many tasks are started, or messages sent, in one commit, beyond those of a single advance: everybody
#: else waits for it.
MADE_TOGETHER: Final = 5_000
_EACH_WEIGHS: Final = BATCH_BYTES_MAX // MADE_TOGETHER


class Asked(NamedTuple):
    """An advance, and by whom it is made."""

    advance: Advance
    owner: Owner
    quarantine_max: int


class Move(NamedTuple):
    """How far a holder has got with a unit, and the epochs of its holding and of itself."""

    stream: str
    grp: str
    partition: int
    slot: int
    epoch: int
    holder: str
    holder_epoch: int
    reached: int | None


#: Of a task, or a message: whether it is new, or why it could not be entered.
Outcome = bool | BackstayError

#: (stream, group, partition, slot) of a unit; (stream, group, partition, offset) of an event.
Place = tuple[str, str, int, int]
EventPlace = tuple[str, str, int, int]

#: An event that is set aside, and when.
Aside = tuple[NewQuarantined, datetime]


def weight(asked: Asked) -> int:
    """How much of a commit an advance takes up."""
    started = sum(max(_EACH_WEIGHS, len(start.task.input)) for start in asked.advance.starts)
    sent = sum(max(_EACH_WEIGHS, len(send.message.body)) for send in asked.advance.messages)
    return started + sent + sum(len(one.event.body) for one in asked.advance.quarantined)


class Advancing:
    """Advances that are written in one go."""

    def __init__(self, asked: Sequence[tuple[Asked, datetime]]) -> None:
        self._asked = asked
        self._outcomes: list[list[Outcome]] = [[] for _ in asked]
        # The messages that are sent now, each with the place of its advance; and what became of them.
        self._sending: list[tuple[int, Send]] = []
        self._sent: list[Outcome] = []
        # The latest of their times is the one that it is.
        self.now = max(now for _, now in asked)
        #: Alerts that are new: to be told of once they are kept.
        self.called: list[NewAlert] = []

    @property
    def moves(self) -> list[Move]:
        """Of each holding the furthest that it has got."""
        furthest: dict[Move, int | None] = {}
        for one, _ in self._asked:
            unmoved = _move(one)
            reached = furthest.get(unmoved)
            to = one.advance.to
            furthest[unmoved] = reached if to is None else to if reached is None else max(to, reached)
        return [move._replace(reached=reached) for move, reached in furthest.items()]

    @property
    def lost(self) -> LeaseLost:
        """To be raised when one of the holdings is another's. Which, is seen when each is by itself."""
        one = self._asked[0][0]
        return LeaseLost(one.advance.holding.label, one.owner.id)

    @property
    def settled(self) -> list[tuple[int, str, str, int]]:
        """What leaves the quarantine, each with the partition in which it must be."""
        return [
            (number, held.group.stream, held.group.name, held.partition)
            for one, _ in self._asked
            for held in [one.advance.holding]
            for number in one.advance.settled
        ]

    @property
    def tasks(self) -> list[tuple[NewTask, datetime]]:
        return [(start.task, now) for one, now in self._asked for start in one.advance.starts]

    def entered(self, outcomes: Iterable[Outcome]) -> None:
        """What became of each of the tasks."""
        each = iter(outcomes)
        self._outcomes = [[next(each) for _ in one.advance.starts] for one, _ in self._asked]

    @property
    def claimable(self) -> bool:
        """Whether there is something new to claim."""
        return any(outcome is True for outcomes in self._outcomes for outcome in outcomes)

    @property
    def has_messages(self) -> bool:
        return any(one.advance.messages for one, _ in self._asked)

    def unsent(
        self, reached: Mapping[Place, int | None], settled: Container[EventPlace]
    ) -> list[tuple[NewMessage, datetime]]:
        """The messages that were not sent before.

        ``reached`` are the checkpoints as they were, ``settled`` the events that leave the quarantine: what
        lies below the one and is not among the others has been sent, however long ago.
        """
        seen: set[EventPlace] = set()
        for number, (one, _) in enumerate(self._asked):
            held = one.advance.holding
            begins = reached[held.group.stream, held.group.name, held.partition, held.slot] or 0
            for send in one.advance.messages:
                place = (held.group.stream, held.group.name, held.partition, send.event.offset)
                if place not in seen and (send.event.offset >= begins or place in settled):
                    seen.add(place)
                    self._sending.append((number, send))
        return [(send.message, self._asked[number][1]) for number, send in self._sending]

    def sent(self, answers: Iterable[Sent | BackstayError]) -> None:
        """What became of each of those. Raises why one of them has to wait: then all of them do."""
        for answer in answers:
            # What is wrong with the message itself does not get better; everything else does.
            if isinstance(answer, BackstayError) and not isinstance(answer, InvalidInput):
                raise answer
            self._sent.append(answer if isinstance(answer, BackstayError) else not answer.duplicate)

    @property
    def aside(self) -> Mapping[Group, list[Aside]]:
        """What each group sets aside; with that the events whose tasks, or messages, could not be entered."""
        found: dict[Group, list[Aside]] = defaultdict(list)
        for (one, now), outcomes in zip(self._asked, self._outcomes, strict=True):
            group = one.advance.holding.group
            if one.advance.quarantined:
                found[group] += [(new, now) for new in one.advance.quarantined]
            for start, outcome in zip(one.advance.starts, outcomes, strict=True):
                if isinstance(outcome, BackstayError):
                    found[group].append((NewQuarantined(event=start.event, reason=str(outcome)), now))
        for (number, send), outcome in zip(self._sending, self._sent, strict=True):
            if isinstance(outcome, BackstayError):
                one, now = self._asked[number]
                aside = NewQuarantined(event=send.event, reason=f"send: {outcome}")
                found[one.advance.holding.group].append((aside, now))
        return {group: found[group] for group in sorted(found)}

    @property
    def quarantine_max(self) -> int:
        return min(one.quarantine_max for one, _ in self._asked)

    def answers(self) -> list[Advanced | BackstayError]:
        sent: list[list[Outcome]] = [[] for _ in self._asked]
        for (number, _), outcome in zip(self._sending, self._sent, strict=True):
            sent[number].append(outcome)
        return [
            Advanced(
                started=sum(outcome is True for outcome in entered),
                sent=sum(outcome is True for outcome in mine),
                conflicts=sum(isinstance(outcome, BackstayError) for outcome in (*entered, *mine)),
            )
            for entered, mine in zip(self._outcomes, sent, strict=True)
        ]


def _move(one: Asked) -> Move:
    held, owner = one.advance.holding, one.owner
    group = held.group
    return Move(
        group.stream, group.name, held.partition, held.slot, held.epoch, owner.id, owner.epoch, reached=None
    )


def unfit(task: NewTask, error: Exception) -> Conflict:
    """Why a task cannot be kept that breaks a rule of the schema, or has a value that no database keeps."""
    return Conflict(f"the store refused task {task.id!r}: {error}")


def check_room(group: Group, quarantined: int, *, limit: int) -> None:
    """``quarantined`` counts what is set aside just now."""
    if quarantined > limit:
        raise QuarantineFull(group.stream, group.name, limit=limit)


def quarantine_alert(group: Group, aside: Sequence[Aside]) -> NewAlert:
    """Calls a person for what a group sets aside. Once: what follows is in the quarantine with it."""
    new = aside[0][0]
    return NewAlert(
        kind=AlertKind.QUARANTINE,
        message=f"group {group.name} of stream {group.stream} sets events aside; the first is at offset"
        f" {new.event.offset} of partition {new.event.partition}: {new.reason}",
        target=group_target(group.stream, group.name),
    )
