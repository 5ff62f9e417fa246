"""Step keys by branch, and the record of what a task already did.

A branch is one asyncio task of a workflow, numbered when it is created: the workflow's own has the
empty path, the tasks it creates are 1, 2, …, and theirs 1.1, 1.2, … A step's key is the path of
the branch it was called in, its name, and the how-manieth call of that name in that branch it is:
``reserve:1``, ``2.reserve:1``. So two gathered sequences that call the same steps never mix.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from backstay.domain.step import StepKind, StepRecord
from backstay.errors import JournalMismatch


class Branch:
    """One asyncio task of a workflow; hands out the keys of what is called in it."""

    __slots__ = ("_children", "_ordinals", "path")

    def __init__(self, path: str = "") -> None:
        self.path = path
        self._ordinals: dict[str, int] = {}
        self._children = 0

    def key(self, name: str) -> str:
        """The key of the next call of ``name`` in this branch."""
        ordinal = self._ordinals.get(name, 0) + 1
        self._ordinals[name] = ordinal
        return f"{self.path}{name}:{ordinal}"

    def child(self) -> Branch:
        """The branch of the asyncio task that is being created in this one."""
        self._children += 1
        return Branch(f"{self.path}{self._children}.")


_NOTHING: Final[frozenset[str]] = frozenset()


class Journal:
    """What a task has recorded, and which of the recorded results is to be delivered next."""

    __slots__ = ("_order", "_unclaimed", "entries")

    def __init__(self, steps: Iterable[StepRecord]) -> None:
        self.entries = {step.key: step for step in steps}
        if not self.entries:
            self._order: list[StepRecord] = []
            self._unclaimed: set[str] | frozenset[str] = _NOTHING
            return
        delivered = [step for step in self.entries.values() if step.settled and _was_waited_for(step)]
        # Newest first, so that the next one is popped off the end.
        self._order = sorted(delivered, key=lambda step: step.position or 0, reverse=True)
        self._unclaimed = {key for key, step in self.entries.items() if _was_waited_for(step)}

    def claim(self, key: str, *, operation: str, input: bytes) -> StepRecord | None:
        """The entry recorded under ``key``, after checking that this call is the one recorded."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        if entry.operation != operation:
            raise JournalMismatch(
                key, f"the journal has {entry.operation!r} here, the workflow called {operation!r}"
            )
        if entry.input is not None and entry.input != input:
            raise JournalMismatch(key, "it was called with another input than the one recorded")
        self._unclaimed -= {key}
        return entry

    def next_delivery(self) -> StepRecord | None:
        """The recorded result that comes next, or ``None`` when all were delivered."""
        return self._order[-1] if self._order else None

    def delivered(self) -> None:
        self._order.pop()

    def check_all_called(self) -> None:
        """Replay is over: raise if the journal holds something that the workflow did not call."""
        if self._unclaimed:
            key = min(self._unclaimed, key=lambda missing: self.entries[missing].position or 0)
            raise JournalMismatch(
                key, "the journal has it, but the workflow no longer calls it at this point"
            )

    def check_over(self) -> None:
        """The workflow ended: raise if the journal holds something that it did not come to."""
        left = self.next_delivery()
        if left is not None:
            raise JournalMismatch(left.key, "the journal has its result, but the workflow ended before it")
        self.check_all_called()


def _was_waited_for(step: StepRecord) -> bool:
    # Values may come and go with the code. A planned step that was not called yet has no input, even
    # if somebody completed it by hand.
    return step.kind is not StepKind.VALUE and step.input is not None
