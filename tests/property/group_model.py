"""Groups as simple as they can be: a few dictionaries, and everything is tried out on a copy."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Step:
    """What somebody made of events of a partition, under an epoch of its holding."""

    partition: int
    epoch: int
    to: int | None = None
    #: Of each task its id, its content, and the offset of its event.
    starts: Sequence[tuple[str, str, int]] = ()
    aside: Sequence[int] = ()
    #: The offsets of what leaves the quarantine.
    settled: Sequence[int] = ()


@dataclass
class Place:
    """A partition."""

    checkpoint: int | None = None
    holder: str | None = None
    epoch: int = 0


@dataclass
class State:
    tasks: dict[str, str] = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)
    quarantine: set[tuple[int, int]] = field(default_factory=set)


class Refused(Exception):
    """Nothing of it is written."""


class GroupModel:
    """What a store keeps of a group, said in the plainest way."""

    def __init__(self, *, lease: timedelta, quarantine_max: int) -> None:
        self._lease = lease
        self._quarantine_max = quarantine_max
        self.beats: dict[str, datetime] = {}
        self.state = State()

    def hold(self, name: str, partitions: Collection[int], now: datetime) -> dict[int, int]:
        """The epochs of all that ``name`` holds by then."""
        for number in partitions:
            place = self.state.places.setdefault(number, Place())
            if place.holder is None or (
                place.holder != name and now - self.beats[place.holder] > self._lease
            ):
                place.holder = name
                place.epoch += 1
        return {number: one.epoch for number, one in self.state.places.items() if one.holder == name}

    def release(self, name: str, epochs: dict[int, int]) -> None:
        for number, epoch in epochs.items():
            place = self.state.places[number]
            if (place.holder, place.epoch) == (name, epoch):
                place.holder = None

    def advance(self, name: str, steps: Sequence[Step]) -> list[tuple[int, int] | str]:
        """Of each how many tasks are new and how many were others; or the name of the refusal."""
        try:
            return [*self._attempt(name, steps)]
        except Refused as refusal:
            if len(steps) == 1:
                return [str(refusal)]
        return [answer for step in steps for answer in self.advance(name, [step])]

    def _attempt(self, name: str, steps: Sequence[Step]) -> list[tuple[int, int]]:
        state = copy.deepcopy(self.state)
        for step in steps:
            place = state.places[step.partition]
            if (place.holder, place.epoch) != (name, step.epoch):
                raise Refused("LeaseLost")
            reached = [one for one in (place.checkpoint, step.to) if one is not None]
            place.checkpoint = max(reached, default=None)
            state.quarantine -= {(step.partition, offset) for offset in step.settled}
        before = len(state.quarantine)
        answers = [_enter(state, step) for step in steps]
        if before < len(state.quarantine) > self._quarantine_max:
            raise Refused("QuarantineFull")
        self.state = state
        return answers


def _enter(state: State, step: Step) -> tuple[int, int]:
    new = others = 0
    state.quarantine |= {(step.partition, offset) for offset in step.aside}
    for task, content, offset in step.starts:
        if task not in state.tasks:
            state.tasks[task] = content
            new += 1
        elif state.tasks[task] != content:
            state.quarantine.add((step.partition, offset))
            others += 1
    return new, others
