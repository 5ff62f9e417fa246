"""A queue as simple as it can be: a list that is looked through from the beginning each time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import datetime, timedelta

AGEING = timedelta(minutes=1)


@dataclass(eq=False)
class Letter:
    """One message."""

    id: str
    number: int
    session: str | None
    rank: datetime
    #: Not to be received before: it is scheduled, has to wait, or is locked until then.
    free_at: datetime
    expires_at: datetime | None
    #: Whether its time had come when somebody last looked.
    arrived: bool
    #: Whether it is the one of its session that comes next, or is at work.
    turn: bool = False
    locked: bool = False
    #: Whether only who asks for its number gets it.
    deferred: bool = False
    deliveries: int = 0
    #: Which delivery it was; None: it is nobody's.
    token: int | None = None


@dataclass
class QueueModel:
    """What a queue does, said in the plainest way."""

    lock: timedelta
    max_deliveries: int
    max_letters: int
    letters: list[Letter] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def send(
        self,
        id: str,
        *,
        session: str | None,
        priority: int,
        at: datetime,
        ttl: timedelta | None,
        now: datetime,
    ) -> bool:
        """Whether there was room for it."""
        if len(self.letters) + len(self.dead) >= self.max_letters:
            return False
        letter = Letter(
            id=id,
            number=next(self._numbers),
            session=session,
            rank=at - priority * AGEING,
            free_at=at,
            expires_at=None if ttl is None else at + ttl,
            arrived=at <= now,
        )
        self.letters.append(letter)
        self._pass_turns(now)
        return True

    def receive(self, limit: int, now: datetime) -> list[Letter]:
        ready = self._ready(limit, now)
        for letter in ready:
            self._lock(letter, now)
        return ready

    def take(self, limit: int, now: datetime) -> list[Letter]:
        """At most once: they are gone."""
        ready = self._ready(limit, now)
        for letter in ready:
            letter.deliveries += 1
            self.letters.remove(letter)
        self._pass_turns(now)
        return ready

    def receive_deferred(self, letter: Letter, now: datetime) -> bool:
        """Whether it was deferred, and nobody else's."""
        self._sweep(now)
        if letter not in self.letters or not letter.deferred or letter.locked:
            return False
        self._lock(letter, now)
        self._pass_turns(now)
        return True

    def _ready(self, limit: int, now: datetime) -> list[Letter]:
        self._sweep(now)
        ready = [one for one in self.letters if one.turn and not one.locked and one.free_at <= now]
        ready.sort(key=lambda one: (one.rank, one.number))
        return ready[:limit]

    def _lock(self, letter: Letter, now: datetime) -> None:
        letter.locked, letter.free_at = True, now + self.lock
        letter.deliveries += 1
        letter.token = next(self._numbers)

    def _sweep(self, now: datetime) -> None:
        for letter in [*self.letters]:
            if letter.locked and letter.free_at <= now:
                self._let_go(letter, now)
        for letter in [*self.letters]:
            letter.arrived = letter.arrived or letter.free_at <= now
            if letter.expires_at is not None and letter.expires_at <= now and not letter.locked:
                self.letters.remove(letter)  # Dropped: this queue keeps no expired ones.
        self._pass_turns(now)

    def _pass_turns(self, now: datetime) -> None:
        """In each session, whoever has been there longest comes next; others come when they may."""
        for letter in self.letters:
            if letter.session is None:
                letter.turn = letter.arrived and not letter.deferred
        for session in {letter.session for letter in self.letters} - {None}:
            line = [one for one in self.letters if one.session == session]
            taken = any(one.turn or one.locked for one in line)
            line = [one for one in line if not one.deferred]
            about_to_arrive = any(not one.arrived and one.free_at <= now for one in line)
            behind = [one for one in line if one.arrived]
            if behind and not taken and not about_to_arrive:
                min(behind, key=lambda one: one.number).turn = True

    # What whoever received a letter says of it

    def holds(self, letter: Letter, token: int | None, now: datetime) -> bool:
        return letter.locked and letter.token == token and now < letter.free_at

    def renew(self, letter: Letter, now: datetime) -> None:
        letter.free_at = now + self.lock

    def complete(self, letter: Letter, now: datetime) -> None:
        letter.locked = False
        self.letters.remove(letter)
        self._pass_turns(now)

    def abandon(self, letter: Letter, delay: timedelta, now: datetime) -> None:
        self._let_go(letter, now + delay)
        self._pass_turns(now)

    def release(self, letter: Letter, now: datetime) -> None:
        letter.locked, letter.token, letter.free_at = False, None, now
        letter.deliveries -= 1
        self._pass_turns(now)

    def defer(self, letter: Letter, now: datetime) -> None:
        letter.locked, letter.token, letter.turn = False, None, False
        letter.deferred, letter.expires_at = True, None
        self._pass_turns(now)

    def set_aside(self, letter: Letter, now: datetime) -> None:
        letter.locked = False
        self.letters.remove(letter)
        self.dead.append(letter.id)
        self._pass_turns(now)

    def _let_go(self, letter: Letter, free_at: datetime) -> None:
        letter.locked, letter.token, letter.free_at = False, None, free_at
        if letter.deliveries >= self.max_deliveries:
            self.letters.remove(letter)
            self.dead.append(letter.id)
