"""How the lateness of jobs is told."""

from __future__ import annotations

from backstay.api.job_metrics import job_lines
from backstay.observe import Histogram


def test_each_bucket_counts_all_that_are_at_most_as_large():
    lateness = Histogram(0.5, 1, 60)
    for seconds in (0.1, 0.5, 0.7, 3_600.0):
        lateness.add(seconds)

    assert [*job_lines(lateness)][2:] == [
        'backstay_job_lateness_seconds_bucket{le="0.5"} 2',
        'backstay_job_lateness_seconds_bucket{le="1"} 3',
        'backstay_job_lateness_seconds_bucket{le="60"} 3',
        'backstay_job_lateness_seconds_bucket{le="+Inf"} 4',
        "backstay_job_lateness_seconds_sum 3601.300000",
        "backstay_job_lateness_seconds_count 4",
    ]
