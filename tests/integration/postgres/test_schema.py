"""The schema says the same as the domain, and no query reads more rows than it must."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import asyncpg
import psycopg
import pytest
from psycopg.sql import Literal

from backstay.domain.states import STEP_ARROWS, TASK_ARROWS, StepState, TaskState
from backstay.sql.queries import load_queries, numbered
from backstay.store.postgres import PostgresStore
from backstay.store.postgres.schema import migrate
from backstay.store.postgres.tables import Tables
from backstay.store.postgres.url import address_of
from backstay.testing.records import NOON, a_step, a_task, replace
from backstay.vault import Vault
from tests.support.postgres import PostgresServer, schema_name

FRAGMENTS = {
    "alert_columns",
    "collection_columns",
    "control_columns",
    "entry_columns",
    "forget_plain",  # It empties a table, and has no plan.
    "history_columns",
    "holding_columns",
    "instance_columns",
    "is_due",
    "is_alive",
    "is_at_work",
    "is_late",
    "jobs_of",
    "message_columns",
    "next_messages",
    "micros",
    "is_overdue",
    "is_overrun",
    "is_past_its_end",
    "is_under_way",
    "is_waited_for",
    "now",
    "quarantine_columns",
    "queue_columns",
    "request_columns",
    "round_columns",
    "shut_queues",  # It locks a table, and has no plan.
    "standing_columns",
    "step_columns",
    "task_columns",
    "task_columns_light",
    "task_filter",
    "token_columns",
}


@pytest.fixture
async def tables(postgres: PostgresServer, postgres_url: str) -> AsyncIterator[Tables]:
    """Empty tables, and a connection whose search path leads to them."""
    address = address_of(postgres_url)
    connection = await asyncpg.connect(postgres.url(), server_settings={"search_path": address.schema})
    queries = load_queries("backstay.store.postgres", schema=address.schema)
    tables = Tables(
        connection, {name: numbered(sql) for name, sql in queries.items()}, inline_bytes_max=10_000
    )
    await migrate(tables, address, vault=Vault())
    yield tables
    await connection.close()


# The arrows


def task_values(state: TaskState) -> dict[str, Any]:
    """The columns that depend on the state."""
    task = a_task(state)
    return {
        "state": state,
        "output": task.output,
        "error": None if task.error is None else b"{}",
        "locked_by": task.locked_by,
        "complete_by": task.complete_by,
        "parked": task.parked,
    }


async def insert_task(tables: Tables, state: TaskState, /, **changed: Any) -> None:
    values = {
        "id": "t",
        "workflow": "w",
        "version": 1,
        "input": b"",
        "attributes": "{}",
        "created_at": NOON,
        "updated_at": NOON,
        **task_values(state),
        **changed,
    }
    places = ", ".join(f"${number}" for number in range(1, len(values) + 1))
    await tables.connection.execute(
        f"INSERT INTO task ({', '.join(values)}) VALUES ({places})", *values.values()
    )


async def update_task(tables: Tables, state: TaskState) -> None:
    values = task_values(state)
    assignments = ", ".join(f"{column} = ${number}" for number, column in enumerate(values, start=1))
    await tables.connection.execute(f"UPDATE task SET {assignments}", *values.values())


async def refuses(update: Callable[[], Awaitable[object]]) -> bool:
    """Whether the arrow is refused; a row that is wrong in another way is a mistake of the test."""
    try:
        await update()
    except asyncpg.CheckViolationError as error:
        if "no such arrow" not in str(error):
            raise
        return True
    return False


async def test_the_trigger_on_tasks_has_every_arrow_of_the_table_and_no_other(tables: Tables):
    refused = set()
    for source, target in product(TaskState, TaskState):
        await insert_task(tables, source)
        if await refuses(partial(update_task, tables, target)):
            refused.add((source, target))
        await tables.connection.execute("DELETE FROM task")

    allowed = set(product(TaskState, TaskState)) - refused
    assert allowed == {(source, target) for source in TaskState for target in TASK_ARROWS[source] | {source}}


async def test_the_trigger_on_steps_has_every_arrow_of_the_table_and_no_other(tables: Tables):
    refused = set()
    for source, target in product(StepState, StepState):
        await tables.put_steps([a_step(source)])
        if await refuses(partial(tables.put_steps, [a_step(target)])):
            refused.add((source, target))
        await tables.connection.execute("DELETE FROM step")

    allowed = set(product(StepState, StepState)) - refused
    assert allowed == {(source, target) for source in StepState for target in STEP_ARROWS[source] | {source}}


async def test_a_refused_arrow_is_named(tables: Tables):
    await insert_task(tables, TaskState.CANCELLED)

    with pytest.raises(
        asyncpg.CheckViolationError, match="no such arrow between task states: cancelled to pending"
    ):
        await update_task(tables, TaskState.PENDING)


# What a row must not say


@pytest.mark.parametrize("state", list(TaskState))
async def test_a_task_may_be_in_every_state_that_the_machine_knows(tables: Tables, state: TaskState):
    await insert_task(tables, state)

    assert await tables.connection.fetchval("SELECT state FROM task") == state


@pytest.mark.parametrize(
    ("state", "wrong"),
    [
        pytest.param(TaskState.PENDING, {"state": "paused"}, id="a state that the machine does not know"),
        pytest.param(TaskState.PENDING, {"request": "pause"}, id="a request that nobody can make"),
        pytest.param(TaskState.PENDING, {"locked_by": "alice"}, id="held while it waits to be claimed"),
        pytest.param(TaskState.CANCELLED, {"locked_by": "alice"}, id="held although it is over"),
        pytest.param(TaskState.PROCESSING, {"locked_by": None, "complete_by": None}, id="run by nobody"),
        pytest.param(TaskState.PENDING, {"complete_by": NOON}, id="a complete-by for nobody"),
        pytest.param(TaskState.WAITING, {"parked": False}, id="waiting, and not parked"),
        pytest.param(TaskState.PENDING, {"parked": True}, id="parked, and claimable"),
        pytest.param(TaskState.PROCESSED, {"output": None}, id="processed without an output"),
        pytest.param(TaskState.ERROR, {"error": None}, id="stopped without an error"),
    ],
)
async def test_a_task_that_contradicts_itself_is_refused(
    tables: Tables, state: TaskState, wrong: dict[str, Any]
):
    with pytest.raises(asyncpg.CheckViolationError):
        await insert_task(tables, state, **wrong)


@pytest.mark.parametrize(
    ("state", "wrong"),
    [
        pytest.param(StepState.PENDING, {"state": "paused"}, id="a state that the machine does not know"),
        pytest.param(StepState.PENDING, {"kind": "dream"}, id="an unknown kind"),
        pytest.param(StepState.PENDING, {"undo": "perhaps"}, id="an unknown way to undo it"),
        pytest.param(StepState.PENDING, {"agent": None}, id="a step that no agent makes"),
        pytest.param(StepState.PENDING, {"complete_by": NOON}, id="a complete-by before it runs"),
        pytest.param(StepState.PENDING, {"position": 1}, id="a result before it runs"),
        pytest.param(StepState.RUNNING, {"complete_by": None}, id="running for ever"),
        pytest.param(StepState.RUNNING, {"attempt": 0}, id="running without an attempt"),
        pytest.param(StepState.RUNNING, {"position": 1}, id="running, and its result was delivered"),
        pytest.param(StepState.COMPLETED, {"output": None}, id="completed without an output"),
        pytest.param(StepState.COMPLETED, {"position": None}, id="completed, and not delivered"),
    ],
)
async def test_a_step_that_contradicts_itself_is_refused(
    tables: Tables, state: StepState, wrong: dict[str, Any]
):
    with pytest.raises(asyncpg.CheckViolationError):
        await tables.put_steps([replace(a_step(state), **wrong)])


async def test_an_id_is_given_to_one_task_only(tables: Tables):
    await insert_task(tables, TaskState.PENDING)

    with pytest.raises(asyncpg.UniqueViolationError):
        await insert_task(tables, TaskState.PENDING)


# The audit trail


@pytest.mark.parametrize(
    "change",
    ["UPDATE audit SET who = 'nobody'", "DELETE FROM audit", "TRUNCATE audit", "TRUNCATE audit CASCADE"],
)
async def test_what_stands_in_the_audit_trail_stays(tables: Tables, change: str):
    await tables.connection.execute(
        "INSERT INTO audit (at, who, action, target) VALUES (now(), 'ann', 'pause', 'agent:bank')"
    )

    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="the audit trail is append-only"):
        await tables.connection.execute(change)

    assert await tables.connection.fetchval("SELECT who FROM audit") == "ann"


# Checkpoints, and what is set aside

A_CHECKPOINT = (
    "INSERT INTO checkpoint (stream, grp, partition, slot, checkpoint, log, holder, epoch, updated_at)"
    " VALUES ('s', 'g', {partition}, {slot}, {checkpoint}, 'log', 'alice', {epoch}, now())"
)


@pytest.mark.parametrize(
    "back",
    [
        pytest.param("checkpoint = 6", id="an earlier offset"),
        pytest.param("checkpoint = NULL", id="as if nothing was read"),
        pytest.param("epoch = 1", id="an earlier epoch"),
    ],
)
async def test_no_checkpoint_moves_back(tables: Tables, back: str):
    await tables.connection.execute(A_CHECKPOINT.format(partition=0, slot=0, checkpoint=7, epoch=2))
    await tables.connection.execute("UPDATE checkpoint SET checkpoint = 7, epoch = 2, holder = NULL")

    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="a checkpoint never moves back"):
        await tables.connection.execute(f"UPDATE checkpoint SET {back}")


@pytest.mark.parametrize("wrong", [{"checkpoint": -1}, {"partition": -1}, {"slot": -1}, {"epoch": 0}])
async def test_a_checkpoint_that_cannot_be_is_refused(tables: Tables, wrong: dict[str, int]):
    values = {"partition": 0, "slot": 0, "checkpoint": 7, "epoch": 2, **wrong}

    with pytest.raises(asyncpg.CheckViolationError):
        await tables.connection.execute(A_CHECKPOINT.format(**values))


async def test_an_event_is_in_quarantine_once_for_each_group(tables: Tables):
    insert = (
        'INSERT INTO quarantine (stream, grp, partition, "offset", enqueued_at, reason, at, body)'
        " VALUES ('s', $1, 0, 7, now(), 'no', now(), '')"
    )
    await tables.connection.execute(insert, "g")
    await tables.connection.execute(insert, "h")

    with pytest.raises(asyncpg.UniqueViolationError):
        await tables.connection.execute(insert, "g")


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
VALUES (1, 'J', 'j', 'u', 1, 'one', 'skip', now(), now(), 0, 0, 0, 0, '{{}}', '{state}', {next_at},
        {armed_at}, {outcome_at}, {ended_at})
"""
ENABLED = {
    "state": "enabled",
    "next_at": "now()",
    "armed_at": "now()",
    "outcome_at": "NULL",
    "ended_at": "NULL",
}


async def test_a_subscription_has_one_free_collection_and_no_two_of_a_name(tables: Tables):
    await tables.connection.execute(A_COLLECTION.format(name="a", sku="Free"))
    await tables.connection.execute(A_COLLECTION.format(name="b", sku="Standard"))

    for name, sku in [("c", "Free"), ("b", "Standard")]:
        with pytest.raises(asyncpg.UniqueViolationError):
            await tables.connection.execute(A_COLLECTION.format(name=name, sku=sku))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"state": "paused", "ended_at": "now()"}, id="a state that nobody knows"),
        pytest.param({"next_at": "NULL"}, id="due without an instant"),
        pytest.param({"state": "disabled"}, id="due although it is disabled"),
        pytest.param({"ended_at": "now()"}, id="ended, and enabled"),
        pytest.param({"state": "completed", "armed_at": "NULL"}, id="completed, and never ended"),
        pytest.param({"outcome_at": "now()"}, id="an occurrence that ended neither way"),
    ],
)
async def test_a_job_that_contradicts_itself_is_refused(tables: Tables, wrong: dict[str, str]):
    await tables.connection.execute(A_JOB.format(**ENABLED))
    await tables.connection.execute("DELETE FROM job")

    with pytest.raises(asyncpg.CheckViolationError):
        await tables.connection.execute(A_JOB.format(**{**ENABLED, **wrong}))


# The plans

# Many tasks that are over, and a few of each kind that somebody still has to do with.
_FILL = """
INSERT INTO instance (id, epoch, live, host, pid, runs, started_at, heartbeat_at)
SELECT 'instance-' || n, 1, n <= 3, 'h', n, '[]', '2030-01-01', '2030-01-01' FROM generate_series(1, 2000) n;

INSERT INTO task (id, workflow, version, state, input, output, attributes, created_at, updated_at)
SELECT 'over-' || n, 'ship', 1, 'processed', '1', '1', '{}', '2030-01-01', '2030-01-01'
  FROM generate_series(1, 20000) n;
INSERT INTO task (id, workflow, version, state, input, attributes, created_at, updated_at)
SELECT 'pending-' || n, 'ship', 1, 'pending', '1', '{}', '2030-01-01', '2030-01-01'
  FROM generate_series(1, 20) n;
INSERT INTO task (id, workflow, version, state, input, locked_by, complete_by, attributes, created_at,
                  updated_at)
SELECT 'processing-' || n, 'ship', 1, 'processing', '1', 'instance-' || n % 3 + 1, '2030-01-01', '{}',
       '2030-01-01', '2030-01-01'
  FROM generate_series(1, 20) n;
INSERT INTO task (id, workflow, version, state, input, parked, wake_at, attributes, created_at, updated_at)
SELECT 'waiting-' || n, 'ship', 1, 'waiting', '1', true, '2030-01-01', '{}', '2030-01-01', '2030-01-01'
  FROM generate_series(1, 20) n;
INSERT INTO task (id, workflow, version, state, input, error, attributes, created_at, updated_at)
SELECT 'error-' || n, 'ship', 1, 'error', '1', '{}', '{}', '2030-01-01', '2030-01-01'
  FROM generate_series(1, 20) n;

INSERT INTO step (task_key, key, kind, agent, operation, state, attempt, failure_count, complete_by, output,
                  position, undo_attempt, undo_failures, pivot, unsure)
SELECT task.key, 'charge:' || n, 'step', 'bank', 'charge', CASE WHEN over THEN 'completed' ELSE 'running' END,
       1, 0, CASE WHEN NOT over THEN timestamptz '2030-01-01' END, CASE WHEN over THEN '1'::bytea END,
       CASE WHEN over THEN n END, 0, 0, false, false
  FROM task
 CROSS JOIN generate_series(1, 3) n
 CROSS JOIN LATERAL (SELECT task.state = 'processed') AS is_over (over);
INSERT INTO signal (task_key, number, name, payload, consumed_by, received_at)
SELECT key, 1, 'go', '1', CASE state WHEN 'processed' THEN 'w:1' END, '2030-01-01' FROM task;
INSERT INTO payload (task_key, digest, body) SELECT key, 'digest', '1' FROM task;
INSERT INTO queue (name, lock_time, max_deliveries, dedup, dead_letter_expired, sessions, created_at)
VALUES ('orders', '60s', 10, '10m', false, false, '2030-01-01');
INSERT INTO message (queue_key, id, properties, session, priority, state, rank, enqueued_at, visible_at,
                     lock_secret, delivery_count, reason, dead_at, deferred, body)
SELECT 1, 'm' || n, '{}', CASE WHEN n % 3 = 0 THEN 's' || n % 50 END, 0, state, '2030-01-01', '2030-01-01',
       CASE WHEN state IN ('locked', 'waiting') THEN timestamptz '2030-01-02' END,
       CASE state WHEN 'locked' THEN 'secret' END, 1, CASE state WHEN 'dead' THEN 'no' END,
       CASE state WHEN 'dead' THEN timestamptz '2030-01-01' END, state = 'deferred', '1'
  FROM generate_series(1, 20000) n
 CROSS JOIN LATERAL (SELECT CASE WHEN n <= 19000 THEN 'dead' WHEN n % 3 = 0 THEN 'behind'
                                 WHEN n % 5 = 0 THEN 'locked' WHEN n % 7 = 0 THEN 'waiting'
                                 WHEN n % 11 = 0 THEN 'deferred'
                                 ELSE 'ready' END) AS one (state);
INSERT INTO checkpoint (stream, grp, partition, checkpoint, log, holder, epoch, updated_at)
SELECT 's' || stream, 'g' || grp, partition, 7, 'log', 'instance-1', 1, '2030-01-01'
  FROM generate_series(1, 10) stream, generate_series(1, 10) grp, generate_series(0, 31) partition;
INSERT INTO group_member (stream, grp, instance)
SELECT 's' || stream, 'g' || grp, 'instance-' || number
  FROM generate_series(1, 10) stream, generate_series(1, 10) grp, generate_series(1, 8) number;
INSERT INTO quarantine (stream, grp, partition, "offset", enqueued_at, reason, at, resubmitted, body)
SELECT 's' || n % 200, 'g' || n % 7, n % 32, n, '2030-01-01', 'no', '2030-01-01', n % 1000 = 1, '1'
  FROM generate_series(1, 20000) n;
INSERT INTO message_id (queue_key, id, sequence, until) SELECT 1, id, sequence, '2030-01-01' FROM message;
INSERT INTO job_collection (subscription, resource_group, name, subscription_folded, resource_group_folded,
                            name_folded, location, sku, state)
SELECT 's' || n % 20, 'g', 'c' || n, 's' || n % 20, 'g', 'c' || n, 'here', 'Standard', 'Enabled'
  FROM generate_series(1, 2000) n;
INSERT INTO job (collection_key, name, name_folded, uid, generation, catch_up, overlap, created_at,
                 updated_at, next_at, occurrences, executions, failures, faults, definition, state, armed_at,
                 ended_at)
SELECT n / 10, 'j' || n, 'j' || n, 'u' || n, 1, 'one', 'skip', at, at, at, 0, 0, 0, 0, '{}',
       CASE WHEN over THEN 'completed' ELSE 'enabled' END, CASE WHEN NOT over THEN at END,
       CASE WHEN over THEN at END
  FROM generate_series(1, 20000) n
 CROSS JOIN LATERAL (SELECT n % 100 = 0) AS is_over (over)
 CROSS JOIN LATERAL (SELECT timestamptz '2030-01-01' + interval '1 minute' * n) AS instant (at);
INSERT INTO job_secret (job_key, place, secret) SELECT key, 'password', 'hush' FROM job;
INSERT INTO job_task (job_key, task_id) SELECT key, 'over-' || key FROM job;
INSERT INTO job_history (job_key, generation, at, by_hand, action, retry, status, expected_at, started_at,
                         ended_at, repeat, instants, message)
SELECT n % 200 + 1, 1, at, false, 'MainAction', 0, 'completed', at, at, at, n, 1, 'ok'
  FROM generate_series(1, 20000) n
 CROSS JOIN LATERAL (SELECT timestamptz '2029-01-01' + interval '1 minute' * n) AS instant (at);
ANALYZE instance, task, step, signal, payload, queue, message, message_id, checkpoint, group_member,
    quarantine, job_collection, job, job_secret, job_task, job_history, job_gone;
"""

#: What the parameters of a query are like; those that are missing here are NULL.
VALUES: dict[str, Any] = {
    "allowances": [timedelta(minutes=10)],
    "before": 2**63 - 1,
    "agent": "bank",
    "asked": NOON,
    "bytes_max": 1_000,
    "at_most": 100,
    "crashes": 1,
    "grace": timedelta(0),
    "grp": "g1",
    "job_key": 7,
    "holder": "instance-1",
    "after": 0,
    "counted": 100,
    "collection_key": 7,
    "ended_before": NOON,
    "id": "instance-1",
    "ids": ["instance-1", "instance-2"],
    "key": 1,
    "keys": [20_001, 20_030],
    "lease": timedelta(seconds=15),
    "limit": 100,
    "name": "j7",
    "now": NOON,
    "owner": "instance-1",
    "partition": 1,
    "partitions": [1, 2],
    "queue_keys": [1],
    "queue": "orders",
    "queues": ["orders"],
    "secret": "secret",
    "sequence": 19_500,
    "secrets": ["secret"],
    "sequences": [19_500],
    "quarantined": [19_500],
    "resource_group": "g",
    "skip": 0,
    "started_before": NOON,
    "state": "error",
    "stream": "s1",
    "subscription": "s1",
    "versions": [1],
    "workflow": "ship",
    "workflows": ["ship"],
}


#: Only ever run in a transaction of a lane, which finds rows by their keys whatever the server believes.
IN_TRANSACTION = {"dead_of", "forget_ids", "prune_history", "purge_messages"}


class Scan(NamedTuple):
    """How a table is read, and by which index."""

    how: str
    table: str | None
    by: str | None


class Planner:
    """A store with twenty thousand tasks, and how PostgreSQL will go about its queries."""

    def __init__(self, connection: psycopg.Connection, schema: str) -> None:
        self._connection = connection
        self._queries = load_queries("backstay.store.postgres", schema=schema)

    def scans(self, query: str, mode: str) -> list[Scan]:
        """The scans in the plan of a query, as it is made for given values or once for all values."""
        sql, parameters = numbered(self._queries[query])
        self._connection.execute(f"SET enable_seqscan = {'off' if query in IN_TRANSACTION else 'on'}")
        self._connection.execute(f"SET plan_cache_mode = {mode}")
        self._connection.execute(f"PREPARE asked AS {sql}")
        try:
            [types] = self._row(
                "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = 'asked'"
            )
            values = ", ".join(map(_literal, parameters, types))
            [[plan]] = self._row(f"EXPLAIN (FORMAT JSON) EXECUTE asked{f'({values})' if values else ''}")
        finally:
            self._connection.execute("DEALLOCATE asked")
        return list(_scans(plan["Plan"]))

    def _row(self, query: str) -> Sequence[Any]:
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return row


def _literal(name: str, kind: str) -> str:
    value = VALUES.get(name)
    one_in_a_column = kind.endswith("[]") and value is not None and not isinstance(value, list)
    return Literal([value] if one_in_a_column else value).as_string()


def _scans(node: dict[str, Any]) -> Iterator[Scan]:
    if node["Node Type"].endswith("Scan"):
        yield Scan(node["Node Type"], node.get("Relation Name"), node.get("Index Name"))
    for child in node.get("Plans", ()):
        yield from _scans(child)


@pytest.fixture(scope="module")
def planner(postgres: PostgresServer) -> Iterator[Planner]:
    schema = schema_name()

    async def make() -> None:
        store = PostgresStore(postgres.url(schema=schema))
        await store.open()
        await store.close()

    asyncio.run(make())
    with closing(psycopg.connect(postgres.url(), autocommit=True)) as connection:
        connection.execute(f"SET search_path = {schema}")
        connection.execute("SET synchronous_commit = off")
        connection.execute(_FILL)
        yield Planner(connection, schema)
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


every_mode = pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])


@every_mode
@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("claim_tasks", "task_claimable"),
        ("count_claimable", "task_claimable"),
        ("count_claimable_of", "task_claimable"),
        ("call_for_agent", "task_unusual"),
        ("expire_runs", "task_locked"),
        ("expire_runs", "task_hard_end"),
        ("work_waits", "instance_live"),
        ("work_waits", "task_hard_end"),
        ("work_waits", "task_locked"),
        ("work_waits", "task_wake"),
        ("work_waits", "step_pkey"),
        ("wake_due", "task_wake"),
        ("list_rare_tasks", "task_unusual"),
        ("list_processing_tasks", "task_locked"),
        ("list_pending_tasks", "task_claimable"),
        ("list_tasks", "task_pkey"),
        ("steps_overdue", "task_locked"),
        ("free_tasks", "task_locked"),
        ("suspects", "instance_live"),
        ("lock_numbers", "task_pkey"),
        ("locks_at_hand", "task_pkey"),
        ("steps_of", "step_pkey"),
        ("fresh_signals", "signal_pkey"),
        ("instance_epochs", "instance_live"),
        ("lock_messages", "message_ready"),
        ("take_messages", "message_ready"),
        ("lock_deferred", "message_pkey"),
        ("rewrite_message", "message_pkey"),
        ("levels_of", "message_ready"),
        ("list_sessions", "message_session"),
        ("peek_messages", "message_deferred"),
        ("purge_messages", "message_deferred"),
        ("complete_messages", "message_pkey"),
        ("settle_messages", "message_pkey"),
        ("renew_locks", "message_pkey"),
        ("has_ready", "message_ready"),
        ("is_untidy", "message_locked"),
        ("is_untidy", "message_waiting"),
        ("is_untidy", "message_expires"),
        ("return_locked", "message_locked"),
        ("let_arrive", "message_waiting"),
        ("expired_messages", "message_expires"),
        ("take_turns", "message_session"),
        ("known_ids", "message_id_pkey"),
        ("move_checkpoints", "checkpoint_pkey"),
        ("take_units", "checkpoint_pkey"),
        ("release_units", "checkpoint_pkey"),
        ("list_units", "checkpoint_pkey"),
        ("list_members", "group_member_pkey"),
        ("list_resubmitted", "quarantine_resubmitted"),
        ("next_due", "job_armed"),
        ("list_due", "job_armed"),
        ("list_due", "job_task_pkey"),
        ("list_due", "task_id_key"),
        ("jobs_by_key", "job_pkey"),
        ("jobs_at_hand", "job_pkey"),
        ("lock_job", "job_collection_key_name_folded_key"),
        ("list_history", "job_history_newest"),
        ("cut_history", "job_history_newest"),
        ("jobs_ended", "job_ended"),
        ("stranded_jobs", "job_ending"),
        ("prune_history", "job_history_oldest"),
    ],
)
def test_a_query_that_runs_all_the_time_reads_only_rows_that_are_alive(
    planner: Planner, query: str, index: str, mode: str
):
    assert index in {scan.by for scan in planner.scans(query, mode)}


QUERIES = sorted(set(load_queries("backstay.store.postgres", schema="any")) - FRAGMENTS)


@every_mode
@pytest.mark.parametrize("query", QUERIES)
def test_no_query_walks_through_a_whole_table_of_tasks_steps_or_signals(
    planner: Planner, query: str, mode: str
):
    tables = {"task", "step", "signal", "payload", "message", "message_id", "checkpoint", "group_member"}
    tables |= {"quarantine", "job_collection", "job", "job_secret", "job_task", "job_history"}

    walks = [scan for scan in planner.scans(query, mode) if scan.how == "Seq Scan" and scan.table in tables]

    assert walks == []
