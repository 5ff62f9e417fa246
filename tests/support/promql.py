"""As much of PromQL as our rules and panels use, read strictly: anything else counts as a mistake in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)|(?P<text>\"[^\"\\]*\")"
    r"|(?P<span>\[\d+[smhd]\])|(?P<sign>[(){},=<>]))"
)
_AGGREGATIONS: Final = frozenset({"max", "sum"})
#: Of each, of what its last argument consists: of samples over a span of time, or of the latest ones.
_FUNCTIONS: Final = {"rate": True, "increase": True, "absent": False, "histogram_quantile": False}


@dataclass(frozen=True)
class Use:
    """A metric in an expression, and the labels that it must have there."""

    metric: str
    labels: frozenset[str] = frozenset()
    over_time: bool = False

    def with_labels(self, labels: frozenset[str]) -> Use:
        return Use(self.metric, self.labels | labels, self.over_time)


def uses(expression: str) -> list[Use]:
    """The metrics that ``expression`` asks for. An AssertionError says what of it cannot be read."""
    reader = _Reader(expression)
    found = reader.comparison()
    assert reader.at_end, f"{reader.rest!r} is left of {expression!r}"
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text.rstrip()
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._text)

    @property
    def rest(self) -> str:
        return self._text[self._at :]

    def comparison(self) -> list[Use]:
        found = self._term()
        return [*found, *self._term()] if self._takes(">") or self._takes("<") else found

    def _term(self) -> list[Use]:
        if self._next("number"):
            return []
        name = self._must("name")
        if name in _AGGREGATIONS:
            kept = self._names("(", ")") if self._takes("by") else frozenset()
            return [one.with_labels(kept) for one in self._arguments()]
        if name in _FUNCTIONS:
            found = self._arguments()
            assert all(one.over_time is _FUNCTIONS[name] for one in found), f"{name} of {found}"
            return [Use(one.metric, one.labels) for one in found]
        return [self._selector(name)]

    def _arguments(self) -> list[Use]:
        self._must_be("(")
        found = self.comparison()
        while self._takes(","):
            found += self.comparison()
        self._must_be(")")
        return found

    def _selector(self, metric: str) -> Use:
        labels: set[str] = set()
        if self._takes("{"):
            while not self._takes("}"):
                labels.add(self._must("name"))
                self._must_be("=")
                self._must("text")
                self._takes(",")
        return Use(metric, frozenset(labels), over_time=bool(self._next("span")))

    def _names(self, opening: str, closing: str) -> frozenset[str]:
        self._must_be(opening)
        names = {self._must("name")}
        while self._takes(","):
            names.add(self._must("name"))
        self._must_be(closing)
        return frozenset(names)

    # Tokens

    def _next(self, kind: str, value: str | None = None) -> str | None:
        match = _TOKEN.match(self._text, self._at)
        if match is None or match.lastgroup != kind or value not in (None, match[kind]):
            return None
        self._at = match.end()
        return match[kind]

    def _takes(self, word: str) -> bool:
        return self._next("name" if word.isalpha() else "sign", word) is not None

    def _must(self, kind: str) -> str:
        found = self._next(kind)
        assert found is not None, f"a {kind} is missing before {self.rest!r}"
        return found

    def _must_be(self, sign: str) -> None:
        assert self._takes(sign), f"{sign!r} is missing before {self.rest!r}"
