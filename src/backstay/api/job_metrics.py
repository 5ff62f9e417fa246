"""How punctually this process starts the occurrences of jobs, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from backstay.api.exposition import family
from backstay.observe import Histogram


def job_lines(lateness: Histogram) -> Iterator[str]:
    name = "backstay_job_lateness_seconds"
    yield from family(name, "histogram", "How late occurrences of jobs started in this process.")
    bounds = [*(f"{bound:g}" for bound in lateness.bounds), "+Inf"]
    for bound, number in zip(bounds, accumulate(lateness.numbers), strict=True):
        yield f'{name}_bucket{{le="{bound}"}} {number}'
    yield f"{name}_sum {lateness.sum:.6f}"
    yield f"{name}_count {sum(lateness.numbers)}"
