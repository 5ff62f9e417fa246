"""A clock is wrong by minutes: of one host of several, or of the machine under a file that all share."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from backstay import clock
from tests.chaos.matrix import FULL, Healing, Part, Watch, failure
from tests.chaos.workload import (
    Site,
    effects_of,
    ended,
    ends_of,
    is_refused,
    orders,
    refusals,
    serve,
    started,
)
from tests.support.databases import Database, PostgresDatabase
from tests.support.platform import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]

ORDERS = 600 if FULL else 60
WRONG_BY = dt.timedelta(minutes=5)
SETTINGS = {"heartbeat": "500ms", "lease": "2s", "supervisor_period": "100ms"}


def serve_by_a_wrong_clock(site: Site, sign: Path, wrong_by: dt.timedelta) -> None:
    """All roles, in a process whose machine shows another time as soon as there is the file ``sign``."""
    right, right_nanoseconds = dt.datetime, time.time_ns
    nanoseconds = int(wrong_by.total_seconds()) * 10**9
    seen: list[bool] = []

    def is_wrong() -> bool:
        if not seen and sign.exists():
            seen.append(True)
        return bool(seen)

    class WrongDatetime(dt.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return right.now(tz) + (wrong_by if is_wrong() else dt.timedelta(0))

    # The two readings of the machine's wall clock that the package has; its monotonic clock stays right.
    clock.datetime = WrongDatetime  # type: ignore[attr-defined]
    time.time_ns = lambda: right_nanoseconds() + (nanoseconds if is_wrong() else 0)
    serve(site, "scheduler", "agents", "supervisor")


@failure(
    "a clock is wrong by minutes",
    of=Part.DATABASE,
    seen="nothing on PostgreSQL; on SQLite, when the machine's clock jumps ahead, instances start anew once",
    heals=(
        "hosts go by the clock of PostgreSQL; remaining time is measured on monotonic clocks; "
        "fences do the rest"
    ),
    takes="no time; after a jump of the machine's own clock at most a `lease`",
    within="60s",
    invariants=(1, 2, 3, 5, 7, 13, 14, 16),
)
@pytest.mark.parametrize("wrong_by", [WRONG_BY, -WRONG_BY], ids=["ahead", "behind"])
async def test_when_a_clock_is_wrong_by_minutes_everything_ends_in_time_and_once(
    tmp_path: Path, database: Database, watch: Watch, healing: Healing, wrong_by: dt.timedelta
):
    """On PostgreSQL one of two hosts is wrong from the start; on SQLite the one machine jumps under both."""
    site = Site(tmp_path, database.url, SETTINGS)
    jumps = tmp_path / "jumps"
    one_host = not isinstance(database, PostgresDatabase)
    if not one_host:
        jumps.touch()
    children: list[BaseProcess] = [
        started(serve_by_a_wrong_clock, site, jumps, wrong_by),
        started(serve_by_a_wrong_clock, site, jumps if one_host else tmp_path / "never", wrong_by),
    ]
    try:
        async with orders(site.effects).client(database.url) as client:
            for number in range(ORDERS):
                order = {"number": number, "refused": is_refused(number)}
                await client.submit("order", order, id=f"order-{number}")
                if number == ORDERS // 2:
                    jumps.touch()
        with healing():
            await asyncio.to_thread(
                eventually,
                lambda: ended(database),
                lambda number: number == ORDERS,
                what="the end of all orders",
                seconds=healing.within_seconds,
            )
    finally:
        for child in children:
            child.kill()
            child.join()

    effects = site.effects.count()
    assert set(effects) == effects_of(refusals(ORDERS))
    if not one_host:
        assert set(effects.values()) == {1}
        assert database.rows("SELECT id FROM history WHERE what = 'instance'") == [], (
            "nobody was taken for dead"
        )
    elif wrong_by > dt.timedelta(0):
        watch.facts.set_ahead_micros = int(wrong_by.total_seconds()) * 1_000_000
    watch.facts.model = ends_of(refusals(ORDERS))
