"""Where a scheduler stands in line for agents in other processes: no more is sent than they can take up."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from backstay.clock import Clock
from backstay.domain.control import Control
from backstay.domain.offer import Offer

# Who has nobody to ask may leave memory for so long. A host that comes wakes them; this is the net.
UNOFFERED_SECONDS: Final = 30.0

# Nobody knows how long a person holds an agent back. Letting it go on wakes who waits; this is the net.
HELD_SECONDS: Final = 300.0


class RemotePlace:
    """A place in the line for an agent, or a slot once it is granted. A ``Ticket``."""

    __slots__ = ("_changed", "granted", "line", "used")

    def __init__(self, line: Line, *, granted: bool) -> None:
        self.line = line
        self.granted = granted
        self.used = False
        self._changed: Callable[[], None] | None = None

    def when_changed(self, callback: Callable[[], None]) -> None:
        self._changed = callback

    def change(self) -> None:
        if self._changed is not None:
            self._changed()

    def open_in_seconds(self) -> float:
        return self.line.open_in_seconds()

    def give_back(self) -> None:
        self.line.give_back(self)


class Line:
    """First come, first served, for one agent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots = 0
        self._open_at = 0.0
        self._control: Control | None = None
        self._closing = False
        self._taken = 0
        # Ordered, and left from the middle at no cost: a parked task must not stay in memory here.
        self._places: OrderedDict[RemotePlace, None] = OrderedDict()

    @property
    def taken(self) -> int:
        return self._taken

    @property
    def in_line(self) -> int:
        return len(self._places)

    def open_in_seconds(self) -> float:
        """How long nobody is let in at least; 0 when only a slot is missing."""
        if self._held:
            return HELD_SECONDS
        return 0.0 if self._slots else max(0.0, self._open_at - self._clock.monotonic())

    # What is known of the agent

    def offered(self, offer: Offer, *, wait_seconds: float) -> bool:
        """So much may be open from now on. Whether steps may begin that could not before."""
        was_shut, could_park = not self._slots, self.open_in_seconds() > 0
        self._slots = offer.slots
        self._open_at = self._clock.monotonic() + wait_seconds
        self._serve_or_tell(could_park=could_park)
        return was_shut and bool(self._slots) and not self._held

    def regulate(self, control: Control | None) -> bool:
        """Obey what an operator decided. Whether steps may begin that could not before."""
        was_held, could_park = self._held, self.open_in_seconds() > 0
        self._control = control
        self._serve_or_tell(could_park=could_park)
        return was_held and not self._held

    def close(self) -> None:
        """Let nobody in any more, and those in line stay there."""
        self._closing = True

    @property
    def _held(self) -> bool:
        return self._control is not None and self._control.shuts

    # Slots

    def reserve(self) -> RemotePlace:
        if not self._places and self._take():
            return RemotePlace(self, granted=True)
        place = RemotePlace(self, granted=False)
        self._places[place] = None
        return place

    def occupy(self) -> RemotePlace:
        """The slot of a request that an earlier holder of the task sent."""
        self._taken += 1
        return RemotePlace(self, granted=True)

    def give_back(self, place: RemotePlace) -> None:
        """Leave the line, or free a slot that was not used."""
        if place in self._places:
            del self._places[place]
        elif place.granted and not place.used:
            self.free(place)

    def free(self, place: RemotePlace) -> None:
        """A request has come to its end."""
        place.used = True
        self._taken -= 1
        self._serve()

    def _take(self) -> bool:
        if self._closing or self._held or self._taken >= self._slots:
            return False
        self._taken += 1
        return True

    def _serve(self) -> None:
        while self._places and self._take():
            place, _ = self._places.popitem(last=False)
            place.granted = True
            place.change()

    def _serve_or_tell(self, *, could_park: bool) -> None:
        self._serve()
        if not could_park and self.open_in_seconds() > 0:
            for place in list(self._places):
                place.change()  # It may park now.
