"""The schema says the same as the domain, and no query reads more rows than it must."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from backstay.domain.states import STEP_ARROWS, TASK_ARROWS, StepState, TaskState
from backstay.sql.queries import load_queries
from backstay.sql.sqlite.connection import connect
from backstay.sql.sqlite.schema import migrate
from backstay.store.sqlite.rows import SHAPE
from backstay.store.sqlite.tables import Tables, prepare
from backstay.testing.records import a_step, a_task

QUERIES = load_queries("backstay.store.sqlite")
FRAGMENTS = {
    "alert_columns",
    "alert_is_outlived",
    "batch_trigger",
    "batch_view",
    "claimed_table",
    "collection_columns",
    "control_columns",
    "entry_columns",
    "history_columns",
    "holding_columns",
    "instance_columns",
    "is_due",
    "is_alive",
    "is_at_work",
    "is_outlived",
    "is_over",
    "is_overdue",
    "is_overrun",
    "is_past_its_end",
    "is_under_way",
    "is_waited_for",
    "jobs_of",
    "message_columns",
    "next_messages",
    "quarantine_columns",
    "queue_columns",
    "request_columns",
    "round_columns",
    "standing_columns",
    "step_columns",
    "task_columns",
    "task_columns_light",
    "task_filter",
    "token_columns",
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    database = connect(tmp_path / "schema.db", readonly=False)
    migrate(database, "backstay.store.sqlite")
    prepare(database, QUERIES)
    yield database
    database.close()


# The arrows


def task_values(state: TaskState) -> dict[str, Any]:
    """The columns that depend on the state."""
    task = a_task(state)
    error = None if task.error is None else b"{}"
    return {
        "state": state,
        "output": task.output,
        "error": error,
        "locked_by": task.locked_by,
        "complete_by": SHAPE.stored(task.complete_by),
        "parked": task.parked,
    }


def insert_task(database: sqlite3.Connection, state: TaskState) -> None:
    values = {
        "key": 1,
        "id": "t",
        "workflow": "w",
        "version": 1,
        "input": b"",
        "attributes": "{}",
        "created_at": 0,
        "updated_at": 0,
        **task_values(state),
    }
    database.execute(
        f"INSERT INTO task ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
        list(values.values()),
    )


def update_task(database: sqlite3.Connection, state: TaskState) -> None:
    values = task_values(state)
    assignments = ", ".join(f"{column} = :{column}" for column in values)
    database.execute(f"UPDATE task SET {assignments}", values)


def refuses(update: Callable[[], object]) -> bool:
    """Whether the arrow is refused; a row that is wrong in another way is a mistake of the test."""
    try:
        update()
    except sqlite3.IntegrityError as error:
        if "no such arrow" not in str(error):
            raise
        return True
    return False


def test_the_trigger_on_tasks_has_every_arrow_of_the_table_and_no_other(database: sqlite3.Connection):
    refused = set()
    for source, target in product(TaskState, TaskState):
        insert_task(database, source)
        if refuses(partial(update_task, database, target)):
            refused.add((source, target))
        database.execute("DELETE FROM task")

    allowed = set(product(TaskState, TaskState)) - refused
    assert allowed == {(source, target) for source in TaskState for target in TASK_ARROWS[source] | {source}}


def test_the_trigger_on_steps_has_every_arrow_of_the_table_and_no_other(database: sqlite3.Connection):
    tables = Tables(database, QUERIES, inline_bytes_max=10_000)
    refused = set()
    for source, target in product(StepState, StepState):
        tables.put_steps([a_step(source)])
        if refuses(partial(tables.put_steps, [a_step(target)])):
            refused.add((source, target))
        database.execute("DELETE FROM step")

    allowed = set(product(StepState, StepState)) - refused
    assert allowed == {(source, target) for source in StepState for target in STEP_ARROWS[source] | {source}}


def test_a_state_that_the_machines_do_not_know_is_refused(database: sqlite3.Connection):
    insert_task(database, TaskState.PENDING)

    with pytest.raises(sqlite3.IntegrityError):
        database.execute("UPDATE task SET state = 'paused'")


# The audit trail


@pytest.mark.parametrize(
    "change", ["UPDATE audit SET who = 'nobody'", "DELETE FROM audit", "REPLACE INTO audit"]
)
def test_what_stands_in_the_audit_trail_stays(database: sqlite3.Connection, change: str):
    line = "(id, at, who, action, target) VALUES (1, 0, 'ann', 'pause', 'agent:bank')"
    database.execute(f"INSERT INTO audit {line}")

    with pytest.raises(sqlite3.IntegrityError, match="the audit trail is append-only"):
        database.execute(f"{change} {line if change.startswith('REPLACE') else ''}")

    assert database.execute("SELECT who FROM audit").fetchall() == [("ann",)]


# Checkpoints, and what is set aside

A_CHECKPOINT = (
    "INSERT INTO checkpoint (stream, grp, partition, slot, checkpoint, log, holder, epoch, updated_at)"
    " VALUES ('s', 'g', {partition}, {slot}, {checkpoint}, 'log', 'alice', {epoch}, 0)"
)


@pytest.mark.parametrize(
    "back",
    [
        pytest.param("checkpoint = 6", id="an earlier offset"),
        pytest.param("checkpoint = NULL", id="as if nothing was read"),
        pytest.param("epoch = 1", id="an earlier epoch"),
    ],
)
def test_no_checkpoint_moves_back(database: sqlite3.Connection, back: str):
    database.execute(A_CHECKPOINT.format(partition=0, slot=0, checkpoint=7, epoch=2))
    database.execute("UPDATE checkpoint SET checkpoint = 7, epoch = 2, holder = NULL")

    with pytest.raises(sqlite3.IntegrityError, match="a checkpoint never moves back"):
        database.execute(f"UPDATE checkpoint SET {back}")


@pytest.mark.parametrize("wrong", [{"checkpoint": -1}, {"partition": -1}, {"slot": -1}, {"epoch": 0}])
def test_a_checkpoint_that_cannot_be_is_refused(database: sqlite3.Connection, wrong: dict[str, int]):
    values = {"partition": 0, "slot": 0, "checkpoint": 7, "epoch": 2, **wrong}

    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        database.execute(A_CHECKPOINT.format(**values))


def test_an_event_is_in_quarantine_once_for_each_group(database: sqlite3.Connection):
    insert = (
        'INSERT INTO quarantine (stream, grp, partition, "offset", enqueued_at, reason, at, body)'
        " VALUES ('s', ?, 0, 7, 0, 'no', 0, x'')"
    )
    database.execute(insert, ["g"])
    database.execute(insert, ["h"])

    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        database.execute(insert, ["g"])


# Jobs

A_COLLECTION = """
INSERT INTO job_collection (subscription, resource_group, name, subscription_folded, resource_group_folded,
                            name_folded, location, sku, state)
VALUES ('S', 'G', 'N', 's', 'g', '{name}', 'here', '{sku}', 'Enabled')
"""
A_JOB = """
INSERT INTO job (collection_key, name, name_folded, uid, generation, catch_up, overlap, created_at,
                 updated_at, occurrences, executions, failures, faults, definition, state, next_at, armed_at,
                 outcome_at, ended_at)
VALUES (1, 'J', 'j', 'u', 1, 'one', 'skip', 0, 0, 0, 0, 0, 0, '{{}}', '{state}', {next_at},
        {armed_at}, {outcome_at}, {ended_at})
"""
ENABLED = {"state": "enabled", "next_at": 1, "armed_at": 1, "outcome_at": "NULL", "ended_at": "NULL"}


def test_a_subscription_has_one_free_collection_and_no_two_of_a_name(database: sqlite3.Connection):
    database.execute(A_COLLECTION.format(name="a", sku="Free"))
    database.execute(A_COLLECTION.format(name="b", sku="Standard"))

    for name, sku in [("c", "Free"), ("b", "Standard")]:
        with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
            database.execute(A_COLLECTION.format(name=name, sku=sku))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"state": "paused", "ended_at": 1}, id="a state that nobody knows"),
        pytest.param({"next_at": "NULL"}, id="due without an instant"),
        pytest.param({"state": "disabled"}, id="due although it is disabled"),
        pytest.param({"ended_at": 1}, id="ended, and enabled"),
        pytest.param({"state": "completed", "armed_at": "NULL"}, id="completed, and never ended"),
        pytest.param({"outcome_at": 1}, id="an occurrence that ended neither way"),
    ],
)
def test_a_job_that_contradicts_itself_is_refused(database: sqlite3.Connection, wrong: dict[str, Any]):
    database.execute(A_JOB.format(**ENABLED))
    database.execute("DELETE FROM job")

    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        database.execute(A_JOB.format(**{**ENABLED, **wrong}))


# The plans

#: Parameters that are lists, and travel as JSON.
LISTS = {
    *("keys", "ids", "states", "wanted", "locks", "names", "sequences", "settlements", "turns"),
    *("entered", "gone", "holdings", "moves", "partitions", "units", "quarantined", "settled"),
    *("counts", "entries", "secrets", "standings", "tasks"),
}


#: Tables that grow with what an application does.
LARGE = (
    "task|step|signal|payload|message|message_id|checkpoint|group_member|quarantine"
    "|job|collection|job_collection|job_secret|job_task|job_history"
)


def plan_of(database: sqlite3.Connection, query: str) -> list[str]:
    """How SQLite will go about a query."""
    width = {"put_step": 20, "insert_messages": 12, "remember_ids": 4, "set_aside": 11}.get(query, 0)
    text = QUERIES[query].replace("{rows}", f"({', '.join('?' * width)})")
    # Parts of a trigger: what they read of its row is given to them.
    text = re.sub(r"RAISE\(.*?\)", "1", text.replace("NEW.", ":"))
    names = set(re.findall(r":(\w+)", text))
    values: Any = {name: "[]" if name in LISTS else 1 for name in names}
    if "?" in text:
        values = [1] * (len(set(re.findall(r"\?\d+", text))) or text.count("?"))
    return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {text}", values)]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("find_claimable", "task_claimable (workflow=? AND version=?)"),
        ("count_claimable", "task_claimable"),
        ("count_claimable_of", "task_claimable (workflow=?)"),
        ("call_for_agent", "task_unusual (state=?)"),
        ("expire_runs", "task_locked (complete_by<?)"),
        ("expire_runs", "task_hard_end (hard_end>? AND hard_end<?)"),
        ("forget_recoveries", "recovery_at (at<?)"),
        ("forget_keys", "idempotency_key_created_at (created_at<?)"),
        ("list_open_alerts", "alert_open (id<?)"),
        ("list_entries_of", "audit_target (target=? AND id<?)"),
        ("recoveries", "recovery_at (at>?)"),
        ("work_waits", "task_wake (wake_at>? AND wake_at<?)"),
        ("work_waits", "task_locked (complete_by<?)"),
        ("work_waits", "task_hard_end (hard_end>? AND hard_end<?)"),
        ("wake_due", "task_wake (wake_at>? AND wake_at<?)"),
        ("list_rare_tasks", "task_unusual (state=? AND key>? AND key<?)"),
        ("list_processing_tasks", "task_locked"),
        ("list_pending_tasks", "task_claimable"),
        ("steps_overdue", "task_locked"),
        ("free_tasks", "task_locked"),
        ("suspects", "instance_live"),
        ("lock_messages", "message_ready (queue_key=?)"),
        ("take_messages", "message_ready (queue_key=?)"),
        ("levels_of", "message_ready (queue_key=?)"),
        ("list_sessions", "message_session (queue_key=? AND session>?)"),
        ("peek_messages", "message_deferred (queue_key=?)"),
        ("purge_messages", "message_deferred (queue_key=?)"),
        ("purge_messages", "message_dead (queue_key=?)"),
        ("drop_subscription", "subscription_queue (queue_key=?)"),
        ("has_ready", "message_ready (queue_key=?)"),
        ("is_untidy", "message_locked (queue_key=? AND visible_at<?)"),
        ("is_untidy", "message_waiting (queue_key=? AND visible_at<?)"),
        ("is_untidy", "message_expires (queue_key=? AND expires_at>? AND expires_at<?)"),
        ("return_locked", "message_locked (queue_key=? AND visible_at<?)"),
        ("let_arrive", "message_waiting (queue_key=? AND visible_at<?)"),
        ("expired_messages", "message_expires (queue_key=? AND expires_at<?)"),
        ("take_turns", "message_session (queue_key=? AND session=? AND state=?)"),
        ("list_dead", "message_dead (queue_key=? AND sequence>?)"),
        ("forget_ids", "message_id_until (until<?)"),
        ("list_quarantined", "quarantine_stream (stream=? AND id>?)"),
        ("list_quarantined_of", "quarantine_group (stream=? AND grp=? AND id>?)"),
        ("list_resubmitted", "quarantine_resubmitted (stream=? AND grp=?)"),
        ("quarantined_to_resubmit", "quarantine_stream (stream=?)"),
        ("next_due", "job_armed (armed_at>?)"),
        ("list_due", "job_armed (armed_at<?)"),
        ("list_due", "sqlite_autoindex_task_1 (id=?)"),
        ("jobs_ended", "job_ended (ended_at<?)"),
        ("stranded_jobs", "job_ending"),
        ("list_history", "job_history_newest (job_key=?)"),
        ("cut_history", "job_history_newest (job_key=?)"),
        ("prune_history", "job_history_oldest (started_at<?)"),
        ("count_collections", "job_collection_sku (subscription_folded=?)"),
    ],
)
def test_a_query_that_runs_all_the_time_reads_only_rows_that_are_alive(
    database: sqlite3.Connection, query: str, index: str
):
    assert any(line.endswith(f" INDEX {index}") for line in plan_of(database, query))


# What a person has looked at as a whole: a store that is checked, or copied; and the newest so many tasks.
WALKS = {query for query in QUERIES if query.startswith("faulty_")} | {"lowest_checkpoints", "task_numbers"}


@pytest.mark.parametrize("query", sorted(set(QUERIES) - FRAGMENTS - WALKS))
def test_no_query_walks_through_a_whole_table_of_tasks_steps_or_signals(
    database: sqlite3.Connection, query: str
):
    assert not [line for line in plan_of(database, query) if re.fullmatch(f"SCAN ({LARGE})", line)]
