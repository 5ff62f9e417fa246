"""The services' own books against what was accepted: what is missing, left behind, or done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from drone_delivery.services.books import Books

DIFFERENCES_MAX: Final = 5
_STOPPED: Final = frozenset({"error", "undo_failed"})
#: What is cancelled before it began needs no undo.
_UNDONE: Final = frozenset({"undone", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``differences``: what does not fit, in words; the first few."""

    accepted: int
    processed: int
    undone: int
    error: int
    orphaned: int
    duplicates: int
    differences: tuple[str, ...] = ()

    @property
    def reconciled(self) -> bool:
        """Whether every accepted delivery is complete, or left nothing behind, or waits for a person."""
        ended = self.processed + self.undone + self.error
        return ended == self.accepted and self.orphaned == self.duplicates == 0

    def as_dict(self) -> dict[str, int | bool]:
        names = ("accepted", "processed", "undone", "error", "orphaned", "duplicates")
        return {**{name: getattr(self, name) for name in names}, "reconciled": self.reconciled}

    def lines(self) -> list[str]:
        return [
            f"reconciled: {'yes' if value else 'no'}" if name == "reconciled" else f"{name} {value}"
            for name, value in self.as_dict().items()
        ]


def reconcile(accepted: Collection[str], states: Mapping[str, str], books: Books) -> Report:
    """Judge by the books. A delivery counts as processed, or undone, only if they say the same.

    Only what belongs to ``accepted`` is looked at: a store that stays has deliveries from before.
    """
    of_ours = Holdings(books, accepted)
    complete, touched = of_ours.complete(), of_ours.touched()
    processed = {one for one in accepted if states.get(one) == "processed" and one in complete}
    undone = {one for one in accepted if states.get(one) in _UNDONE and one not in touched}
    error = {one for one in accepted if states.get(one) in _STOPPED}
    orphaned, duplicates = of_ours.orphaned(complete), of_ours.duplicates()
    unexplained = [
        f"delivery {one} is {states.get(one, 'lost')}, which the services' books do not bear out"
        for one in sorted(set(accepted) - processed - undone - error)
    ]
    return Report(
        accepted=len(accepted),
        processed=len(processed),
        undone=len(undone),
        error=len(error),
        orphaned=len(orphaned),
        duplicates=len(duplicates),
        differences=tuple([*unexplained, *orphaned, *duplicates][:DIFFERENCES_MAX]),
    )


class Holdings:
    """What the services hold for some deliveries, all of it under their ids."""

    def __init__(self, books: Books, ids: Collection[str]) -> None:
        ours = frozenset(ids)
        self._flights = [flight for flight in books.assignments if flight.delivery_id in ours]
        self._made = [delivery for delivery in books.deliveries if delivery.id in ours]
        self._packages = {package.id for package in books.packages if package.live and package.id in ours}
        self._checks = {check.id: check for check in books.checks if check.live and check.id in ours}
        self._flying = {flight.delivery_id: flight for flight in self._flights if flight.live}
        self._fleet = Counter(flight.drone_id for flight in books.assignments if flight.live)
        self._live = {delivery.id: delivery for delivery in self._made if delivery.live}

    def complete(self) -> set[str]:
        """Deliveries with everything that belongs to one: a drone, the same in both books, and a package."""
        return {
            delivery.id
            for delivery in self._live.values()
            if (check := self._checks.get(delivery.id)) is not None
            and not check.required
            and (flight := self._flying.get(delivery.id)) is not None
            and flight.drone_id == delivery.drone_id
            and flight.package_id == delivery.id
            and delivery.id in self._packages
        }

    def touched(self) -> set[str]:
        """Deliveries that some service still holds something for."""
        return {*self._checks, *self._flying, *self._live, *self._packages}

    def orphaned(self, complete: Collection[str]) -> list[str]:
        """What is held for a delivery that is not complete."""
        held = {
            "check": self._checks,
            "package": self._packages,
            "drone": self._flying,
            "delivery": self._live,
        }
        return [
            f"a {what} is held for delivery {one}, which is not complete"
            for what, deliveries in held.items()
            for one in deliveries
            if one not in complete
        ]

    def duplicates(self) -> list[str]:
        """What was done twice: two drones for a delivery, a drone for two, a delivery made twice."""
        drones = {flight.drone_id: self._fleet[flight.drone_id] for flight in self._flying.values()}
        return [
            *(
                f"delivery {flight.delivery_id} was given {flight.times} drones"
                for flight in self._flights
                if flight.times > 1
            ),
            *(f"drone {drone} flies {times} deliveries" for drone, times in drones.items() if times > 1),
            *(
                f"delivery {delivery.id} was created {delivery.times_created} times"
                for delivery in self._made
                if delivery.times_created > 1
            ),
        ]
