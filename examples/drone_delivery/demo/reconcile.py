"""The services' own books against what was accepted: what is missing, left behind, or done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from drone_delivery.services.books import Books

DIFFERENCES_MAX: Final = 5
_STOPPED: Final = frozenset({"error", "undo_failed", "cancelled"})


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
    """Judge by the books. A delivery counts as processed, or undone, only if they say the same."""
    complete, touched = _complete(books), _touched(books)
    processed = {one for one in accepted if states.get(one) == "processed" and one in complete}
    undone = {one for one in accepted if states.get(one) == "undone" and one not in touched}
    error = {one for one in accepted if states.get(one) in _STOPPED}
    orphaned, duplicates = _orphaned(books, complete), _duplicates(books)
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


def _complete(books: Books) -> set[str]:
    """Deliveries with everything that belongs to one: a drone, the same in both books, and a package."""
    packages = {package.id for package in books.packages if package.live}
    flights = {flight.delivery_id: flight for flight in books.assignments if flight.live}
    checked = {check.id for check in books.checks if check.live and not check.required}
    return {
        delivery.id
        for delivery in books.deliveries
        if delivery.live
        and delivery.id in checked
        and (flight := flights.get(delivery.id)) is not None
        and flight.drone_id == delivery.drone_id
        and flight.package_id in packages
    }


def _touched(books: Books) -> set[str]:
    """Deliveries that some service still knows as live."""
    return {
        *(check.id for check in books.checks if check.live),
        *(flight.delivery_id for flight in books.assignments if flight.live),
        *(delivery.id for delivery in books.deliveries if delivery.live),
    }


def _orphaned(books: Books, complete: Collection[str]) -> list[str]:
    """Drones and packages that are held for no delivery."""
    flights = [flight for flight in books.assignments if flight.live]
    carried = {flight.package_id for flight in flights if flight.delivery_id in complete}
    return [
        *(
            f"drone {flight.drone_id} is held for delivery {flight.delivery_id}, which is not complete"
            for flight in flights
            if flight.delivery_id not in complete
        ),
        *(
            f"package {package.id} is held, and no delivery carries it"
            for package in books.packages
            if package.live and package.id not in carried
        ),
    ]


def _duplicates(books: Books) -> list[str]:
    """What was done twice: two drones for a delivery, a drone or a package in two, a delivery made twice."""
    live = [flight for flight in books.assignments if flight.live]
    drones = Counter(flight.drone_id for flight in live)
    packages = Counter(flight.package_id for flight in live)
    return [
        *(
            f"delivery {flight.delivery_id} was given {flight.times} drones"
            for flight in books.assignments
            if flight.times > 1
        ),
        *(f"drone {drone} flies {times} deliveries" for drone, times in drones.items() if times > 1),
        *(f"package {package} is in {times} deliveries" for package, times in packages.items() if times > 1),
        *(
            f"delivery {delivery.id} was created {delivery.times_created} times"
            for delivery in books.deliveries
            if delivery.times_created > 1
        ),
    ]
