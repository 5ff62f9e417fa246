"""How punctually this process starts the occurrences of jobs, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator

from backstay.api.exposition import histogram
from backstay.observe import Histogram


def job_lines(lateness: Histogram) -> Iterator[str]:
    described = "How late occurrences of jobs started in this process."
    return histogram("backstay_job_lateness_seconds", described, lateness)
