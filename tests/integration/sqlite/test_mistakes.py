"""One caller's mistake is its own."""

from __future__ import annotations

import asyncio

import pytest

from backstay.errors import InvalidRequest
from backstay.store import decisions
from backstay.store.sqlite import SqliteStore, inbox
from backstay.testing import ManualClock
from backstay.testing.promises.holder import Holder, submitted
from backstay.testing.records import a_step, new_task


async def test_a_submission_that_has_no_form_in_json_fails_alone(store: SqliteStore, clock: ManualClock):
    good, bad = await asyncio.gather(
        store.submit([new_task("good")], now=clock.now()),
        store.submit([new_task("bad", attributes={"name": "\udcff"})], now=clock.now()),
        return_exceptions=True,
    )

    assert isinstance(good, list)
    assert isinstance(bad, UnicodeEncodeError)
    assert len(await submitted(store, clock, "afterwards")) == 1


async def test_the_number_of_signals_to_one_task_is_limited(
    store: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(decisions, "SIGNALS_MAX", 2)
    await submitted(store, clock, "t")
    for _ in range(2):
        await store.signal("t", "go", b"1", dedup=None, now=clock.now())

    with pytest.raises(InvalidRequest, match="task t was sent 2 signals, which is the limit"):
        await store.signal("t", "go", b"1", dedup=None, now=clock.now())


async def test_more_than_one_batch_of_work_is_written_in_order(
    store: SqliteStore, clock: ManualClock, alice: Holder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(inbox, "BATCH_MAX", 3)
    task = await alice.hold("t")

    answers = [alice.post(task, steps=[a_step(output=b"%d" % number)]) for number in range(20)]

    assert await asyncio.gather(*answers) == [None] * 20
    assert [step.output for step in await store.steps("t")] == [b"19"]
