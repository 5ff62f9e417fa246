"""How much a scheduler may ask of agents elsewhere."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backstay.domain.breaker import BreakerState
from backstay.domain.offer import Hosted, Offer, offer
from backstay.testing.records import NOON

LATER = NOON + timedelta(seconds=30)
MUCH_LATER = NOON + timedelta(seconds=90)


def host(
    concurrency: int | None = 10, breaker: BreakerState = BreakerState.CLOSED, *, shut: bool = False
) -> Hosted:
    return Hosted(concurrency, breaker, LATER if shut else None)


@pytest.mark.parametrize(
    ("hosts", "schedulers", "slots"),
    [
        ([host(10)], 1, 10),
        ([host(10), host(5)], 1, 15),
        ([host(10), host(5)], 2, 8),
        ([host(1)], 3, 1),
        ([host(None)], 1, 100),
        ([host(None), host(None)], 4, 50),
        ([host(1_000)], 1, 100),
        ([host(10, BreakerState.HALF_OPEN)], 1, 1),
        ([host(10), host(10, BreakerState.OPEN, shut=True)], 1, 10),
        ([host(10)], 0, 10),
    ],
)
def test_schedulers_share_what_the_hosts_can_do_at_the_same_time(
    hosts: list[Hosted], schedulers: int, slots: int
):
    assert offer(hosts, schedulers=schedulers, at_most=100, now=NOON).slots == slots


def test_nobody_offers_nothing():
    assert offer([], schedulers=1, at_most=100, now=NOON) == Offer(0)


def test_when_all_are_shut_the_first_that_opens_says_until_when():
    shut = [host(shut=True), Hosted(10, BreakerState.OPEN, MUCH_LATER)]

    assert offer(shut, schedulers=1, at_most=100, now=NOON) == Offer(0, LATER, hosts=2)
    assert offer(shut, schedulers=1, at_most=100, now=LATER).slots == 10
