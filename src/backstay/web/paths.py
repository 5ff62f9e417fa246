"""What is at a path: found in as many steps as the path has parts, however many paths there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Place = TypeVar("Place")


@dataclass(slots=True)
class Paths(Generic[Place]):
    """Paths that begin alike: what comes after that, part by part. ``{name}`` stands for any one part."""

    place: Place | None = None
    written: dict[str, Paths[Place]] = field(default_factory=dict)
    name: str = ""
    named: Paths[Place] | None = None

    def add(self, path: str, place: Place) -> None:
        here = self
        for part in path.split("/"):
            here = here.after(part)
        here.place = place

    def after(self, part: str) -> Paths[Place]:
        if not part.startswith("{"):
            return self.written.setdefault(part, Paths())
        self.name = self.name or part[1:-1]
        assert self.name == part[1:-1], "the same part of two paths has two names"
        self.named = self.named or Paths()
        return self.named

    def find(self, path: str) -> tuple[Place, dict[str, str]] | None:
        """What is at ``path``, and what its names stand for there."""
        names: dict[str, str] = {}
        place = self.look(path.split("/"), names)
        return None if place is None else (place, names)

    def look(self, parts: list[str], names: dict[str, str]) -> Place | None:
        if not parts:
            return self.place
        first, *rest = parts
        # A part that is written out goes before one that may be anything, if it leads anywhere.
        place = self.written[first].look(rest, names) if first in self.written else None
        if place is None and self.named is not None and first:
            place = self.named.look(rest, names)
            names[self.name] = first
        return place
