"""When an instance counts as dead."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backstay.domain.lease import is_stale
from backstay.testing.records import NOON

LEASE = timedelta(seconds=15)


@pytest.mark.parametrize(
    ("silent_for", "stale"),
    [
        (timedelta(0), False),
        (LEASE, False),
        (LEASE + timedelta(microseconds=1), True),
        (timedelta(days=400), True),
        pytest.param(timedelta(seconds=-5), False, id="a heartbeat from a clock that is ahead"),
    ],
)
def test_an_instance_is_dead_once_it_was_silent_for_longer_than_its_lease(silent_for: timedelta, stale: bool):
    assert is_stale(NOON - silent_for, lease=LEASE, now=NOON) is stale
