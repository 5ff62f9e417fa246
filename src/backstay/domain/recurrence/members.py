"""The members of one JSON object, by names whose letter case does not matter; null counts as absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from backstay.domain.text import shortened
from backstay.errors import InvalidJob

#: Elements of one array. None has as many different ones.
ELEMENTS_MAX: Final = 100

One = TypeVar("One")


class Members:
    """What one object holds; ``field`` is the way to it."""

    def __init__(self, value: object, field: str) -> None:
        if not isinstance(value, Mapping):
            raise InvalidJob(field, f"is {shortened(value)}; it must be a JSON object")
        self.field = field
        self._given = {str(name): one for name, one in value.items() if one is not None}

    def path(self, name: str) -> str:
        return f"{self.field}.{name}" if self.field else name

    def get(self, name: str) -> object | None:
        """The member of this name, or None; clients do not agree on ``occurrence`` and ``Occurrence``."""
        written = [one for one in self._given if one.lower() == name.lower()]
        if len(written) > 1:
            raise InvalidJob(self.path(name), f"is given twice, as {' and '.join(written)}; keep one of them")
        return self._given[written[0]] if written else None

    def read(self, name: str, reader: Callable[[object, str], One]) -> One | None:
        """What ``reader`` makes of the member, given its way; None if it is absent."""
        value = self.get(name)
        return None if value is None else reader(value, self.path(name))


def whole(least: int, most: int) -> Callable[[object, str], int]:
    """A reader of whole numbers; where ``least`` is negative, 0 is none of them."""
    nonzero = least < 0
    limits = f"between {least} and {most}{', not 0' if nonzero else ''}"

    def reader(value: object, field: str) -> int:
        # True is an int in Python, not in JSON.
        if type(value) is not int or not least <= value <= most or (nonzero and value == 0):
            raise InvalidJob(field, f"is {shortened(value)}; write a whole number {limits}")
        return value

    return reader


def name_of(names: Mapping[str, One]) -> Callable[[object, str], One]:
    """A reader of names, in any letter case."""

    def reader(value: object, field: str) -> One:
        found = names.get(value.lower()) if isinstance(value, str) else None
        if found is None:
            raise InvalidJob(field, f"is {shortened(value)}; write one of {', '.join(names)}")
        return found

    return reader


def several(reader: Callable[[object, str], One]) -> Callable[[object, str], list[One]]:
    """A reader of arrays; something that is none stands for an array of it alone."""

    def read_all(value: object, field: str) -> list[One]:
        if not isinstance(value, list):
            return [reader(value, field)]
        if not 1 <= len(value) <= ELEMENTS_MAX:
            raise InvalidJob(
                field, f"has {len(value)} elements; write 1 to {ELEMENTS_MAX} of them, or leave {field} out"
            )
        return [reader(one, f"{field}[{place}]") for place, one in enumerate(value)]

    return read_all
