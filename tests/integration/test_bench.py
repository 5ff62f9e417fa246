"""The benches run, and their figures agree with one another; how fast anything is, is not asked here."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest

from backstay.domain.recurrence import Timetable, read_timing
from backstay.domain.states import TaskState
from backstay.store.base import TaskFilter
from bench import next_after
from bench.bulk import bulk, finished, pending, stopped
from bench.databases import sqlite
from bench.five_steps import STEPS, five_step_app
from bench.jobs import ours as bench_of_jobs
from bench.letters import IDLE, RECEIVE, SEND, SEND_IN_ONE_CALL
from bench.points import Point, percentile, summary_of
from bench.queue_peers import QueuePeer, compared
from bench.queues import Rate
from tests.support.benches import SHORT, Rows, document_of, run_bench

NAMES = ("five_steps", "branches", "remote_agents", "submit", "claim", "queues", "replay", "memory")


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    return run_bench(tmp_path_factory.mktemp("bench"), *NAMES, *SHORT)


@pytest.fixture(scope="module")
def results(short_run: subprocess.CompletedProcess[str]) -> dict[str, Rows]:
    found: dict[str, Rows] = document_of(short_run)["results"]
    return found


def test_one_document_holds_the_conditions_and_every_bench_that_was_asked_for(short_run):
    document = document_of(short_run)

    conditions = document["conditions"]
    assert set(document["results"]) == set(NAMES)
    assert [store["name"] for store in conditions["stores"]] == ["sqlite"]
    assert conditions["cores"] >= 1
    assert conditions["cpu_seconds"] > 0
    assert conditions["stores"][0]["sync_ms"] > 0


def test_what_is_under_way_is_said_beside_the_document(short_run):
    assert all(name in short_run.stderr for name in NAMES)


def test_every_row_names_its_store(results):
    assert {row["store"] for rows in results.values() for row in rows} == {"sqlite"}


@pytest.mark.parametrize("name", ["five_steps", "branches", "remote_agents", "submit"])
def test_half_of_the_tasks_take_no_longer_than_all_but_a_hundredth(results, name):
    assert results[name]
    for row in results[name]:
        assert row["tasks"] >= row["in_flight"]
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["tasks_per_second"] > 0


def test_the_ratio_is_that_of_ours_to_the_floor_of_the_same_run(results):
    for row in results["five_steps"]:
        assert row["ratio"] == pytest.approx(
            row["tasks_per_second"] / row["floor_tasks_per_second"], abs=0.001
        )


def test_messages_are_sent_and_received_and_one_is_alone_in_its_queue(results):
    rates = {(row["work"], row["at_a_time"]): row for row in results["queues"]}

    assert set(rates) == {(SEND, 1), (SEND, 10), (RECEIVE, 1), (RECEIVE, 10), (IDLE, 1)}
    for row in rates.values():
        assert 0 < row["p50_ms"] <= row["p99_ms"]
    assert all(rates[kind]["messages_per_second"] > 0 for kind in rates if kind[0] != IDLE)


def peer(work: str, at_a_time: int, name: str = "procrastinate", **figures: Any) -> QueuePeer:
    return QueuePeer(peer=name, store="postgresql", work=work, at_a_time=at_a_time, **figures)


def test_rates_beside_others_are_compared_with_as_many_at_a_time_and_with_their_best():
    others = [
        peer(SEND, 1, messages_per_second=100.0),
        peer(SEND, 100, messages_per_second=200.0),
        peer(SEND_IN_ONE_CALL, 100, messages_per_second=400.0),
        peer(RECEIVE, 1, messages_per_second=9_999.0),
        peer(SEND, 1, "celery", messages_per_second=9_999.0),
    ]
    ours = Rate(
        store="sqlite", work=SEND, at_a_time=1, messages=9, messages_per_second=800, p50_ms=1, p99_ms=2
    )

    row = compared(ours, others)

    assert (row.times_procrastinate, row.times_procrastinate_best) == (8.0, 2.0)
    assert (row.times_celery, row.times_celery_best) == (None, None), "only one that is as durable counts"


def test_who_takes_half_as_long_through_an_idle_queue_is_twice_as_fast():
    ours = Rate(store="sqlite", work=IDLE, at_a_time=1, messages=9, p50_ms=2.0, p99_ms=3.0)

    assert compared(ours, [peer(IDLE, 1, p50_ms=4.0)]).times_procrastinate == 2.0


def test_every_pending_task_is_claimed_in_as_few_claims_as_their_size_allows(results):
    [row] = results["claim"]

    assert row["claims"] == -(-row["tasks"] // row["limit"])
    assert row["p50_ms"] <= row["p99_ms"]


def test_a_resumed_task_runs_only_its_last_step_again(results):
    [row] = results["replay"]

    assert row["steps_run_again"] == 1
    assert row["steps_replayed"] + row["steps_run_again"] == row["steps"]


def test_memory_is_weighed_in_flight_parked_and_pending(results):
    rows = {row["tasks_are"]: row for row in results["memory"]}

    assert set(rows) == {"in flight", "parked", "pending"}
    for row in rows.values():
        added = (row["mib_with"] - row["mib_without"]) * 1024**2
        # The megabytes are rounded to a tenth.
        assert row["bytes_per_task"] * row["tasks"] == pytest.approx(added, abs=0.2 * 1024**2)


def test_a_full_store_is_filled_once_and_measured_beside_an_empty_one(tmp_path):
    first = run_bench(tmp_path, "growth", "--tasks", "1000", *SHORT)
    second = run_bench(tmp_path, "growth", "--tasks", "1000", *SHORT)

    rows = document_of(first)["results"]["growth"]
    assert [row["what"] for row in rows] == [
        "five steps, 10 in flight",
        "claim",
        "round of the supervisor",
        "list the newest",
        "list by state error",
        "list by workflow",
        "list by rare workflow",
        "open",
    ]
    assert all(row["finished_tasks"] == 1000 for row in rows)
    assert all(row["empty"] > 0 and row["full"] > 0 for row in rows)
    assert "1,000 of 1,000 finished tasks are there" in first.stderr
    assert "from an earlier run" in second.stderr
    assert "finished tasks are there" not in second.stderr
    assert len(document_of(second)["results"]["growth"]) == len(rows)


async def test_tasks_put_in_bulk_are_like_any_other(database):
    await asyncio.to_thread(put_in_bulk, database.url)

    async with five_step_app().client(store=database.url) as client:
        [stopped_one] = (await client.tasks(TaskFilter(states=(TaskState.ERROR,)))).items
        done = (await client.tasks(TaskFilter(states=(TaskState.PROCESSED,)))).items
        steps = [step for task in done for step in await client.steps(task.id)]
        assert stopped_one.error is not None
        assert [await client.handle(task.id).result() for task in done] == [STEPS] * 3
        assert [(step.key, step.state, step.input, step.output) for step in steps] == [
            (f"work:{number}", "completed", number - 1, number) for number in range(1, STEPS + 1)
        ] * 3
        assert await client.backlog(at_most=10) == 2


def put_in_bulk(url: str) -> None:
    with bulk(url) as tables:
        tables.put(stopped(), 1)
        tables.put(finished(steps=STEPS), 3)
        tables.put(pending("five"), 2)
        tables.settle()


def test_the_next_occurrence_is_looked_for_in_every_kind_of_recurrence(tmp_path):
    rows = document_of(run_bench(tmp_path, "next_after", *SHORT))["results"]["next_after"]

    assert [row["recurrence"] for row in rows] == list(next_after.KINDS)
    assert all(0 < row["p50_us"] <= row["p99_us"] and row["read_us"] > 0 for row in rows)


@pytest.mark.parametrize("kind", next_after.KINDS)
def test_no_kind_of_recurrence_waits_for_its_first_occurrence_while_it_is_measured(kind):
    document = {"startTime": next_after.BEGAN.isoformat(), "recurrence": next_after.KINDS[kind]}
    table = Timetable(read_timing(document), created=next_after.BEGAN)

    assert table.first is not None
    assert table.first < next_after.BEGAN + next_after.TEN_YEARS


def test_events_are_appended_one_at_a_time_and_in_batches_and_all_of_them_are_read(tmp_path):
    rows = document_of(run_bench(tmp_path, "append", *SHORT))["results"]["append"]

    assert [(row["work"], row["callers"], row["events_each"], row["events"]) for row in rows] == [
        ("append", 1, 1, 5),
        ("append with ids", 10, 1, 40),
        ("append", 2, 10, 100),
        ("read", 1, 10, 100),
    ]
    assert all(row["events_per_second"] > 0 and 0 < row["p50_ms"] <= row["p99_ms"] for row in rows)


def test_events_are_read_into_tasks_calls_and_batches(tmp_path):
    rows = document_of(run_bench(tmp_path, "pipelines", *SHORT))["results"]["pipelines"]

    assert [(row["sink"], row["partitions"], row["roles"]) for row in rows if row["store"] == "sqlite"] == [
        ("start", 32, "ingest"),
        ("start", 4, "ingest"),
        ("start", 32, "ingest and scheduler"),
        ("send", 32, "ingest"),
        ("via", 32, "ingest"),
        ("batch", 32, "ingest"),
    ]
    assert all(row["events_per_second"] > 0 for row in rows)


def test_each_page_of_the_console_is_timed_and_an_open_overview_weighed(tmp_path):
    rows = document_of(run_bench(tmp_path, "console", *SHORT))["results"]["console"]

    assert [row["what"] for row in rows][-3:] == ["GET /tasks/{id}", "an open overview", "no open page"]
    assert all(0 < row["median"] <= row["most"] for row in rows if row["unit"] == "ms")


def test_help_lists_every_bench_with_a_line(tmp_path):
    done = run_bench(tmp_path, "--help")

    assert done.returncode == 0
    for name in (
        *NAMES,
        "append",
        "pipelines",
        "ingest",
        "spike",
        "ndjson",
        "reading",
        "stream_to_workflow",
        "drone",
        "back_ends",
        "idle_supervisor",
        "console",
        "next_after",
        "peers",
        "queue_peers",
        "growth",
    ):
        assert f"\n  {name} " in done.stdout


def test_a_bench_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    done = run_bench(tmp_path, "six_steps")

    assert done.returncode == 2
    assert "there is no bench 'six_steps'" in done.stderr
    assert "five_steps" in done.stderr


@pytest.mark.parametrize(("percent", "expected"), [(1, 1.0), (50, 50.0), (99, 99.0), (100, 100.0)])
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(percent, expected):
    values = [float(number) for number in range(1, 101)]

    assert percentile(values, percent) == expected


def test_the_percentile_of_a_single_value_is_that_value():
    assert percentile([7.0], 50) == percentile([7.0], 99) == 7.0


def test_repeats_are_summed_up_by_their_median_and_their_spread():
    points = [Point(in_flight=1, seconds=seconds, latencies=[0.1] * 10) for seconds in (1.0, 2.0, 5.0)]

    summary = summary_of(points)

    assert summary.tasks == 30
    assert summary.per_second == 5.0
    assert summary.spread_percent == 160.0  # from 2 to 10, around 5


def test_jobs_are_written_watched_and_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with sqlite() as database:
        written, idle, due = bench_of_jobs(database, 0.02, short=True)

    assert (written.work, written.jobs, idle.work, idle.jobs) == ("put", 200, "idle", 200)
    assert idle.percent_of_a_core is not None
    assert (due.work, due.jobs) == ("due at once", 20)
    assert due.lateness_p50_ms is not None
    assert due.lateness_p99_ms is not None
    assert 0 < due.lateness_p50_ms <= due.lateness_p99_ms
