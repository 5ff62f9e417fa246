"""A strict reader of what Prometheus scrapes: whatever it would refuse, or take for something else, fails."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_HEAD = re.compile(rf"# (HELP|TYPE) ({_NAME}) (.+)")
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_KINDS = frozenset({"counter", "gauge", "histogram"})
_PARTS = ("_bucket", "_sum", "_count")

Labels = tuple[tuple[str, str], ...]


@dataclass
class Family:
    kind: str = ""
    help: str = ""
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)


def parse(text: str) -> dict[str, Family]:
    """The families of a page by name. Every line must be right, every series there once."""
    assert text.endswith("\n")
    families: dict[str, Family] = {}
    current = ""
    for line in text.splitlines():
        if line.startswith("#"):
            current = _head(line, families, current)
            continue
        match = _SAMPLE.fullmatch(line)
        assert match, f"no sample: {line!r}"
        name, labels, value = match.groups()
        family = families[current]
        own = {f"{current}{part}" for part in _PARTS} if family.kind == "histogram" else {current}
        assert name in own, f"{name} stands below the head of {current}"
        series = (name, _labels(labels or ""))
        assert series not in family.samples, f"twice: {line}"
        family.samples[series] = float(value)
    for name, family in families.items():
        _check(name, family)
    return families


def _head(line: str, families: dict[str, Family], current: str) -> str:
    match = _HEAD.fullmatch(line)
    assert match, f"no head: {line!r}"
    what, name, text = match.groups()
    if what == "HELP":
        assert name not in families, f"{name} is there twice"
        families[name] = Family(help=text)
        return name
    assert name == current, f"the type of {name} stands elsewhere"
    assert not families[name].kind
    assert text in _KINDS, text
    families[name].kind = text
    return name


def _labels(text: str) -> Labels:
    found, at = [], 0
    while at < len(text):
        match = _LABEL.match(text, at)
        assert match, f"no label at {text[at:]!r}"
        found.append((match[1], re.sub(r"\\(.)", lambda one: {"n": "\n"}.get(one[1], one[1]), match[2])))
        at = match.end()
    assert len({name for name, _ in found}) == len(found), f"a label twice: {text}"
    return tuple(sorted(found))


def _check(name: str, family: Family) -> None:
    assert family.kind, f"{name} has no type"
    if family.kind == "counter":
        assert name.endswith("_total"), f"{name} is a counter"
        assert all(value >= 0 for value in family.samples.values())
    if family.kind == "histogram":
        _check_histogram(name, family)


def _check_histogram(name: str, family: Family) -> None:
    buckets = [
        (float(dict(labels)["le"]), value)
        for (sample, labels), value in family.samples.items()
        if sample == f"{name}_bucket"
    ]
    bounds, numbers = zip(*buckets, strict=True)
    assert list(bounds) == sorted(set(bounds))
    assert bounds[-1] == math.inf
    assert list(numbers) == sorted(numbers), f"{name} is not cumulative"
    assert family.samples[f"{name}_count", ()] == numbers[-1]
    assert family.samples[f"{name}_sum", ()] >= 0
