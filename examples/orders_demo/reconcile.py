"""The services' own log against the orders: what was done twice, what was left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from examples.orders_demo.services import TAKEN_BACK_BY, Effect

DONE = frozenset(TAKEN_BACK_BY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``repeated``: calls that came again because a kill or a lost answer left their outcome open."""

    accepted: int
    processed: int
    undone: int
    error: int
    duplicates: int
    orphaned: int
    repeated: int

    @property
    def reconciled(self) -> bool:
        """Whether each accepted order was either done once and completely, or left no trace."""
        ended_well = self.processed + self.undone == self.accepted
        return ended_well and self.error == self.duplicates == self.orphaned == 0

    def lines(self) -> list[str]:
        names = ("accepted", "processed", "undone", "error", "duplicates", "orphaned")
        return [
            *(f"{name} {getattr(self, name)}" for name in names),
            f"reconciled: {'yes' if self.reconciled else 'no'}",
        ]


def reconcile(accepted: Sequence[str], states: Mapping[str, str], effects: Iterable[Effect]) -> Report:
    """Judge by the log. An order is orphaned when its effects are not those of the state it ended in."""
    log = list(effects)
    ended = Counter(states.get(order, "lost") for order in accepted)
    done = Counter((effect.order_id, effect.operation) for effect in log)
    by_order: dict[str, set[str]] = {order: set() for order in accepted}
    for order, operation in done:
        by_order.setdefault(order, set()).add(operation)
    return Report(
        accepted=len(accepted),
        processed=ended["processed"],
        undone=ended["undone"],
        error=ended["error"] + ended["undo_failed"] + ended["cancelled"],
        duplicates=sum(1 for times in done.values() if times > 1),
        orphaned=sum(1 for order, what in by_order.items() if not _fits(states.get(order), what)),
        repeated=sum(effect.calls - 1 for effect in log),
    )


def _fits(state: str | None, operations: set[str]) -> bool:
    if state == "processed":
        return operations == DONE
    return all(TAKEN_BACK_BY[one] in operations for one in operations & DONE)
