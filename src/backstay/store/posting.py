"""What becomes of messages that are sent together, whatever the database: copies, and the answers."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from backstay.domain.alert import NewAlert, of_dead_letter, of_full_queue
from backstay.domain.bound import RETRY_AFTER
from backstay.domain.message import (
    TOO_MANY_DELIVERIES,
    Action,
    Lock,
    MessageState,
    NewMessage,
    Placed,
    Property,
    Queue,
    Sent,
    Settlement,
    Subscription,
    matches,
    parse_token,
    placed,
)
from backstay.errors import BackstayError, LockLost, QueueFull, UnknownQueue
from backstay.store.rows import Row

#: A message, and when it was sent.
Dated = tuple[NewMessage, datetime]

#: (key of the queue, id of the message)
Name = tuple[int, str]

decode_properties: Final = msgspec.json.Decoder(dict[str, Property]).decode

# Left in these, or nowhere at all, a message no longer holds up its session.
_GONE: Final = (None, MessageState.DEFERRED, MessageState.DEAD)


class KnownQueue(NamedTuple):
    """A queue and its number in this store."""

    key: int
    queue: Queue


class Subscriber(NamedTuple):
    """The queue of a subscription, and what it asks of a message."""

    where: Mapping[str, Property]
    known: KnownQueue


class Copy(NamedTuple):
    """A message on its way into one queue."""

    key: int
    new: NewMessage
    placed: Placed
    # Until when its id means this very message; None: it may come again at once.
    until: datetime | None


class Held(NamedTuple):
    """A delivery as the store knows it."""

    sequence: int
    secret: str
    id: str
    queue: str


class Posting:
    """Messages that are sent together. Those that come twice among them are sent once."""

    def __init__(self, messages: Sequence[Dated]) -> None:
        self._messages = messages
        self._errors: dict[int, BackstayError] = {}
        # Of each message its copies, by their places among all.
        self._of: list[list[int]] = [[] for _ in messages]
        self._names: list[Name] = []
        self._copies: list[Copy] = []
        # Those of the copies for which there is no room.
        self._outside: set[int] = set()
        #: The queues that are written to, by their keys, and how many messages go to each.
        self.queues: dict[int, Queue] = {}
        self.wanted: Counter[int] = Counter()
        #: How many messages that may be dropped are, by the names of the queues that are full.
        self.dropped: Counter[str] = Counter()

    @property
    def queue_names(self) -> list[str]:
        return sorted({new.to for new, _ in self._messages if not new.topic})

    @property
    def topic_names(self) -> list[str]:
        return sorted({new.to for new, _ in self._messages if new.topic})

    def address(self, queues: Mapping[str, KnownQueue], topics: Mapping[str, Sequence[Subscriber]]) -> None:
        """Find out where each message goes; one that nobody takes is answered for."""
        seen: dict[Name, int] = {}
        for place, (new, now) in enumerate(self._messages):
            try:
                goes_to = _topic(new, topics) if new.topic else [_queue(new, queues)]
                found = [_copy(new, known, now) for known in goes_to]
            except BackstayError as error:
                self._errors[place] = error
                continue
            for copy, known in zip(found, goes_to, strict=True):
                self._of[place].append(self._add(copy, known, seen))

    def _add(self, copy: Copy, known: KnownQueue, seen: dict[Name, int]) -> int:
        name = (copy.key, copy.new.id)
        if copy.until is not None and name in seen:
            return seen[name]
        self.queues[known.key] = known.queue
        self.wanted[known.key] += 1
        self._copies.append(copy)
        if copy.until is not None:
            seen[name] = len(self._copies) - 1
        return len(self._copies) - 1

    @property
    def copies(self) -> list[Copy]:
        """What is to be written, unless it was sent before."""
        if not self._outside:
            return self._copies
        return [copy for place, copy in enumerate(self._copies) if place not in self._outside]

    def fits(self, room: Mapping[int, int]) -> bool:
        """Whether there is room for everything, though nothing of it was sent before."""
        return all(number <= room[key] for key, number in self.wanted.items())

    def keep_within(self, room: Mapping[int, int], known: Container[Name]) -> None:
        """Refuse what there is no room for; what is ``known`` was sent before, and needs none.

        A message for which one of its queues has none goes to none of them, unless it may be dropped.
        """
        left = Counter(room)
        decided: set[int] = set()
        for place, mine in enumerate(self._of):
            new = [copy for copy in mine if copy not in decided and not self._is_known(copy, known)]
            decided.update(new)
            full = [copy for copy in new if left[self._copies[copy].key] < 1]
            outside = new if full and not self._messages[place][0].droppable else full
            self._outside.update(outside)
            left.subtract(self._copies[copy].key for copy in new if copy not in outside)
            if not self._outside.isdisjoint(mine):
                self._leave_out(place, [copy for copy in mine if copy in self._outside], full)

    def _is_known(self, copy: int, known: Container[Name]) -> bool:
        one = self._copies[copy]
        return one.until is not None and (one.key, one.new.id) in known

    def _leave_out(self, place: int, outside: Sequence[int], full: Sequence[int]) -> None:
        queue = self.queues[self._copies[(full or outside)[0]].key]
        if self._messages[place][0].droppable:
            self.dropped.update(self.queues[self._copies[copy].key].name for copy in outside)
        else:
            self._errors[place] = QueueFull(queue.name, limit=queue.max_messages, retry_after=RETRY_AFTER)

    @property
    def leaves_out(self) -> bool:
        """Whether there is something for which there is no room."""
        return bool(self._outside)

    @property
    def alerts(self) -> list[NewAlert]:
        """Of the queues that refused something, in the order of their names."""
        full = {error.queue: error.limit for error in self._errors.values() if isinstance(error, QueueFull)}
        return [of_full_queue(queue, limit=full[queue]) for queue in sorted(full)]

    @property
    def named(self) -> list[Name]:
        """What might have been sent before."""
        return [(copy.key, copy.new.id) for copy in self.copies if copy.until is not None]

    @property
    def ready_in(self) -> set[str]:
        """The queues in which something can be received now."""
        return {self.queues[copy.key].name for copy in self.copies if copy.placed.state is MessageState.READY}

    @property
    def turns(self) -> list[tuple[int, str]]:
        """The sessions that something came to."""
        return sessions((copy.key, copy.new.session) for copy in self.copies)

    def answers(
        self, written: Iterable[tuple[int, int, str]], known: Mapping[Name, int]
    ) -> list[Sent | BackstayError]:
        """Given what was written (sequence, key, id), in order, and the numbers of what was known."""
        fresh: dict[Name, deque[int]] = defaultdict(deque)
        for sequence, key, chosen in written:
            fresh[key, chosen].append(sequence)
        numbers: list[tuple[int, bool]] = []
        for place, copy in enumerate(self._copies):
            name = (copy.key, copy.new.id)
            is_new = bool(fresh[name]) and place not in self._outside
            numbers.append((fresh[name].popleft(), False) if is_new else (known.get(name, 0), True))
        told: set[int] = set()
        return [self._answer(place, numbers, told) for place in range(len(self._messages))]

    def _answer(
        self, place: int, numbers: Sequence[tuple[int, bool]], told: set[int]
    ) -> Sent | BackstayError:
        if place in self._errors:
            return self._errors[place]
        mine = self._of[place]
        # The second of two that came together is a duplicate as well.
        new = [copy for copy in mine if not numbers[copy][1] and copy not in told]
        told.update(mine)
        return Sent(
            id=self._messages[place][0].id,
            sequence=max((numbers[copy][0] for copy in mine), default=0),
            duplicate=bool(mine) and not new and self._outside.isdisjoint(mine),
        )


def _queue(new: NewMessage, queues: Mapping[str, KnownQueue]) -> KnownQueue:
    if new.to not in queues:
        raise UnknownQueue(new.to)
    return queues[new.to]


def _topic(new: NewMessage, topics: Mapping[str, Sequence[Subscriber]]) -> list[KnownQueue]:
    if new.to not in topics:
        raise UnknownQueue(new.to, what="topic")
    return [one.known for one in topics[new.to] if matches(one.where, new.properties)]


def _copy(new: NewMessage, known: KnownQueue, now: datetime) -> Copy:
    named = new.named and known.queue.dedup
    return Copy(known.key, new, placed(new, known.queue, now), now + known.queue.dedup if named else None)


# Deliveries


class Verdicts:
    """What is said of messages that are settled together, and what the store found of it."""

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self._all = settlements
        self._held = [held(one.lock) for one in settlements]
        self._first: dict[int, int] = {}
        for place, known in enumerate(self._held):
            # Of two that settle the same message at once, the first does.
            if known is not None:
                self._first.setdefault(known.sequence, place)
        self._found: dict[int, tuple[int, str | None, str | None]] = {}
        self._are_dead: set[int] = set()
        #: How many are gone, by the keys of their queues.
        self.gone: Counter[int] = Counter()
        #: Whom the store called for, of ``calls``.
        self.called: list[NewAlert] = []

    @property
    def completed(self) -> list[Held]:
        return [known for known, one in self._each() if one.action is Action.COMPLETE]

    @property
    def others(self) -> list[tuple[Held, Settlement]]:
        return [(known, one) for known, one in self._each() if one.action is not Action.COMPLETE]

    def _each(self) -> Iterator[tuple[Held, Settlement]]:
        for place in self._first.values():
            known = self._held[place]
            assert known is not None
            yield known, self._all[place]

    def found(self, sequence: int, key: int, session: str | None, state: str | None = None) -> None:
        """The store has done as was said of this message, and leaves it in ``state``, or not at all."""
        self._found[sequence] = key, session, state
        if state is None:
            self.gone[key] += 1
        elif state == MessageState.DEAD:
            self._are_dead.add(sequence)

    @property
    def queues(self) -> dict[int, str]:
        return {
            self._found[known.sequence][0]: known.queue for known, _ in self._each() if self._is_found(known)
        }

    def _is_found(self, known: Held) -> bool:
        return known.sequence in self._found

    @property
    def ready_in(self) -> set[str]:
        """The queues in which something can be received again."""
        names = self.queues
        return {names[key] for key, _, state in self._found.values() if state == MessageState.READY}

    @property
    def turns(self) -> list[tuple[int, str]]:
        """The sessions that something left."""
        return sessions((key, session) for key, session, state in self._found.values() if state in _GONE)

    @property
    def used_up(self) -> Counter[str]:
        """How many were set aside by being abandoned once too often, by queue."""
        return Counter(
            known.queue
            for known, one in self._each()
            if one.action is Action.ABANDON and known.sequence in self._are_dead
        )

    @property
    def calls(self) -> list[NewAlert]:
        """Of each queue of which something was set aside that does not call a person by itself, the first."""
        first: dict[str, NewAlert] = {}
        for known, one in self._each() if self._are_dead else ():
            if known.sequence in self._are_dead and one.alert is None and known.queue not in first:
                reason = one.reason if one.action is Action.DEAD_LETTER else TOO_MANY_DELIVERIES
                first[known.queue] = of_dead_letter(known.queue, id=known.id, reason=reason or "")
        return [first[queue] for queue in sorted(first)]

    @property
    def alerts(self) -> list[NewAlert]:
        """What calls a person, of what was done."""
        return [one.alert for known, one in self._each() if one.alert is not None and self._is_found(known)]

    def answers(self) -> list[BackstayError | None]:
        return [
            None
            if known is not None and self._first[known.sequence] == place and self._is_found(known)
            else lost(one.lock)
            for place, (known, one) in enumerate(zip(self._held, self._all, strict=True))
        ]


def sessions(touched: Iterable[tuple[int, str | None]]) -> list[tuple[int, str]]:
    """Of what was touched, the sessions, each once."""
    return sorted({(key, session) for key, session in touched if session is not None})


def held(lock: Lock) -> Held | None:
    """The delivery that a token stands for; None for what is no token."""
    parts = parse_token(lock.token)
    return None if parts is None else Held(parts[0], parts[1], lock.id, lock.queue)


def lost(lock: Lock) -> LockLost:
    return LockLost(lock.queue, lock.id)


# Topics


def as_subscribers(
    rows: Iterable[Row], known_queue: Callable[[Row], KnownQueue]
) -> dict[str, list[Subscriber]]:
    """From the columns of ``subscriptions_of``: of each topic who gets what."""
    found: dict[str, list[Subscriber]] = {}
    for topic, where, *queue in rows:
        subscribers = found.setdefault(topic, [])
        if where is not None:
            subscribers.append(Subscriber(decode_properties(where), known_queue(queue)))
    return found


def as_topics(rows: Iterable[Row]) -> dict[str, list[Subscription]]:
    """From the columns of ``list_topics``."""
    found: dict[str, list[Subscription]] = {}
    for topic, name, where in rows:
        subscriptions = found.setdefault(topic, [])
        if name is not None:
            subscriptions.append(Subscription(topic=topic, name=name, where=decode_properties(where)))
    return found


def as_text(properties: Mapping[str, Property]) -> str:
    return msgspec.json.encode(properties).decode()
