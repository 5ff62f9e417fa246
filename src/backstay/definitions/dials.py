"""What an application lets operators turn while it runs: dials, and the knobs of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

#: A switch is on or off; a number may be missing.
KnobValue = bool | float | None


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """One thing about a dial: a switch if ``value`` is a bool, else a number from ``least`` to ``most``."""

    name: str
    value: KnobValue
    unit: str = ""
    least: float = 0.0
    most: float = 1.0

    @property
    def is_switch(self) -> bool:
        return isinstance(self.value, bool)


class Dial(Protocol):
    """Something with knobs, wherever it is: yours to write. Each call is given a second or two."""

    async def read(self) -> Sequence[Knob]:
        """How it stands now. Raises Unavailable when it does not answer."""
        ...

    async def turn(self, values: Mapping[str, KnobValue]) -> None:
        """Set all of its knobs. Raises InvalidRequest when they do not go together, Unavailable."""
        ...
