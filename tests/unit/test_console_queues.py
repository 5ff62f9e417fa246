"""What the pages of queues show: how many messages there are, and how full that makes a queue."""

from __future__ import annotations

import pytest

from backstay.console.queues import row_of
from backstay.mailroom import QueueView


def a_queue(*, ready: int = 0, dead: int = 0, max_messages: int) -> QueueView:
    return QueueView(
        name="orders",
        lock="60s",
        max_deliveries=10,
        dedup="10m",
        ttl=None,
        dead_letter_expired=False,
        sessions=False,
        max_messages=max_messages,
        ready=ready,
        scheduled=0,
        locked=0,
        deferred=0,
        dead=dead,
    )


@pytest.mark.parametrize(
    ("view", "filled"),
    [
        (a_queue(max_messages=100), 0),
        (a_queue(ready=20, dead=5, max_messages=100), 25),
        (a_queue(ready=99, dead=99, max_messages=100), 100),
        (a_queue(ready=100, max_messages=1_000), None),
        (a_queue(ready=100, dead=3, max_messages=100), 100),
    ],
    ids=["empty", "a quarter", "more than fits", "not counted to the end", "full as far as it was counted"],
)
def test_a_queue_is_as_full_as_is_known_for_sure(view: QueueView, filled: float | None):
    assert row_of(view, None, counted=100).filled == filled


def test_what_was_not_counted_to_the_end_says_so():
    row = row_of(a_queue(ready=1_000, dead=999, max_messages=5_000), None, counted=1_000)

    assert (row.ready, row.dead, row.locked) == ("1,000+", "999", "0")
