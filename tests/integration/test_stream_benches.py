"""The benches of streams run, and what they sent is where it should be; how fast it was is not asked."""

from __future__ import annotations

import pytest

from backstay.clock import SystemClock
from backstay.domain.stream import NewEvent, Stream
from backstay.messaging.embedded import EmbeddedLog
from bench.drone import SHORT_RUNS, SHORT_SECONDS
from bench.ingest import WARM_UP, phases
from bench.load import in_fresh_loop
from bench.openloop.outcome import Fate
from bench.stream_to_workflow import PROCESSES
from bench.streaming.apps import STREAM
from bench.streaming.course import WHOLE
from bench.streaming.reconcile import Reconciled, reconcile
from bench.streaming.servers import BARE, OURS, PLAIN
from tests.support.benches import SHORT, document_of, run_bench


def rows_of(folder, bench):
    return document_of(run_bench(folder, bench, *SHORT))["results"][bench]


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    return rows_of(tmp_path_factory.mktemp("bench"), "ingest")


def test_one_event_per_request_is_taken_in_by_every_lane_under_every_load(ingested):
    loads = [phase.name for phase in phases(short=True) if phase.name != WARM_UP]
    ours = [name for lane in OURS for name in (lane, f"{lane}, with ids")]
    assert [(row["system"], row["load"]) for row in ingested] == [
        (system, load) for system in (*ours, PLAIN, BARE) for load in loads
    ]
    assert all(
        row["requests"] > 0 == row["not_accepted"] == row["lost"] == row["doubled"] for row in ingested
    )
    assert all(0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"] for row in ingested)


def test_the_ratio_is_that_to_plain_asgi_under_the_same_load(ingested):
    plain = {row["load"]: row["requests_per_second"] for row in ingested if row["system"] == PLAIN}
    for row in ingested:
        assert row["times_plain_asgi"] == pytest.approx(
            row["requests_per_second"] / plain[row["load"]], abs=0.01
        )


def test_a_spike_is_absorbed_and_reconciled(tmp_path):
    steady, spike, whole = rows_of(tmp_path, "spike")

    assert (steady["phase"], steady["requests"]) == ("100/s", 100)
    assert (spike["phase"], spike["requests"]) == ("500/s", 250)
    for row in (steady, spike, whole):
        assert row["accepted"] == row["requests"]
        assert row["refused"] == row["failed"] == row["timed_out"] == 0
    assert whole["requests"] == 350
    assert whole["lost"] == whole["doubled"] == whole["unsaid"] == 0


def test_whoever_measures_says_how_long_the_load_before_the_spike_lasts(tmp_path):
    [steady, *_] = document_of(run_bench(tmp_path, "spike", "--seconds", "2", *SHORT))["results"]["spike"]

    assert (steady["seconds"], steady["requests"]) == (2, 200)


def test_lines_are_taken_in_with_and_without_ids(tmp_path):
    rows = rows_of(tmp_path, "ndjson")

    assert [(row["lane"], row["ids"]) for row in rows] == [
        (lane, ids) for lane in OURS for ids in (False, True)
    ]
    assert all(row["events"] > 0 == row["not_accepted"] == row["lost"] == row["doubled"] for row in rows)
    assert all(row["events_per_second"] > 0 and 0 < row["p50_ms"] <= row["p99_ms"] for row in rows)


def test_pages_are_read_alone_and_while_events_come_in(tmp_path):
    alone, beside = rows_of(tmp_path, "reading")

    assert all(row["events_per_second"] > 0 and 0 < row["p50_ms"] <= row["p99_ms"] for row in (alone, beside))
    assert alone["appends_per_second"] is None
    assert beside["appends_per_second"] > 0
    assert 0 < beside["append_p50_ms"] <= beside["append_p99_ms"]


@pytest.fixture(scope="module")
def flows(tmp_path_factory):
    return rows_of(tmp_path_factory.mktemp("bench"), "stream_to_workflow")


@pytest.mark.parametrize("processes", PROCESSES)
def test_what_came_in_and_what_was_done_is_told_for_each_part_of_the_time_and_for_the_whole(flows, processes):
    *parts, whole = [row for row in flows if row["processes"] == processes]

    assert whole["seconds"] == WHOLE
    assert whole["not_accepted"] == whole["not_completed"] == 0
    assert sum(part["incoming_per_second"] for part in parts) * 0.5 == pytest.approx(50)
    assert sum(part["completed_per_second"] for part in parts) * 0.5 == pytest.approx(50)
    assert parts[-1]["backlog"] == 0
    assert whole["backlog"] == max(part["backlog"] for part in parts)
    assert whole["p50_ms"] >= 250, "five steps take 50 ms each"


def test_deliveries_are_followed_from_the_request_to_the_books_also_where_processes_are_killed(tmp_path):
    rows = rows_of(tmp_path, "drone")

    for run in SHORT_RUNS:
        *parts, whole = [row for row in rows if row["back_ends"] == run.back_ends]
        assert (whole["seconds"], whole["kills"]) == (WHOLE, run.kills)
        assert whole["failed"] == whole["lost"] == 0
        assert whole["orphaned"] in (0, None)
        assert whole["duplicates"] in (0, None)
        assert 0 < whole["p50_ms"] <= whole["p95_ms"] <= whole["p99_ms"]
        assert parts[-1]["backlog"] == 0
        wanted = run.rate * SHORT_SECONDS
        assert sum(part["completed_per_second"] for part in parts) * 0.5 >= wanted - whole["not_accepted"]
        assert run.kills or whole["not_accepted"] == 0


@pytest.fixture
def streams(tmp_path):
    """A log with the events of requests 0, 1, 1 and 3."""
    url = f"sqlite:///{tmp_path}/streams.db"
    in_fresh_loop(append(url, "000000000", "000000001", "000000001", "000000003"))
    return url


async def append(url: str, *numbers: str) -> None:
    log, now = EmbeddedLog(url), SystemClock().now()
    await log.open()
    await log.declare(Stream(name=STREAM), now=now)
    await log.append(STREAM, [NewEvent(body=b'{"n":"%s"}' % number.encode()) for number in numbers], now=now)
    await log.close()


def test_a_stream_in_which_one_is_missing_and_another_is_twice_does_not_reconcile(streams):
    fates = bytes([Fate.ACCEPTED, Fate.ACCEPTED, Fate.ACCEPTED, Fate.TIMED_OUT])

    assert reconcile(streams, fates) == Reconciled(acknowledged=3, lost=1, doubled=1, unsaid=1)


def test_an_event_that_nobody_sent_is_not_passed_over(streams):
    with pytest.raises(RuntimeError, match="000000003"):
        reconcile(streams, bytes([Fate.ACCEPTED] * 3))
