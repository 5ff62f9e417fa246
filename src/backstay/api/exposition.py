"""The text format that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from backstay.observe import Histogram

_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def family(name: str, kind: str, described: str) -> Iterator[str]:
    """What stands above the values of one metric."""
    yield f"# HELP {name} {described}"
    yield f"# TYPE {name} {kind}"


def label(value: object) -> str:
    """A value between its quotes, whatever is in it."""
    return f'"{str(value).translate(_ESCAPED)}"'


def histogram(name: str, described: str, values: Histogram) -> Iterator[str]:
    """All lines of a histogram. Others may add to it meanwhile: its numbers are read once."""
    numbers, total = [*values.numbers], values.sum
    yield from family(name, "histogram", described)
    bounds = [*(f"{bound:g}" for bound in values.bounds), "+Inf"]
    for bound, number in zip(bounds, accumulate(numbers), strict=True):
        yield f'{name}_bucket{{le="{bound}"}} {number}'
    yield f"{name}_sum {total:.6f}"
    yield f"{name}_count {sum(numbers)}"
