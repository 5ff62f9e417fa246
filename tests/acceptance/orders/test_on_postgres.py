"""The same example on PostgreSQL: the rows of orders lie in the store's database, whichever that is."""

from __future__ import annotations

from pathlib import Path

from tests.support.databases import PostgresDatabase
from tests.support.orders_running import (
    AGENTS,
    EMPTY,
    INGEST,
    OFFICE,
    PROCESSED,
    SCHEDULER,
    Orders,
    order_with,
)
from tests.support.platform import eventually

DONE = ("received", "started", "completed")


def on(database: PostgresDatabase) -> str:
    """The store, and beside it, for this test alone, the table of orders."""
    return f"{database.url}&search_path={database.schema}"


def test_an_order_is_placed_accepted_charged_and_told_of(postgres_database: PostgresDatabase, tmp_path: Path):
    with Orders(tmp_path, store=on(postgres_database)) as orders:
        order_id = orders.place("tok_visa")
        orders.start(OFFICE, SCHEDULER, AGENTS)

        orders.until_told(order_id, *DONE)
        orders.until(order_id, PROCESSED)
        other = orders.send({"id": order_id, **order_with("tok_visa", cents=1)})

        assert "other content" in orders.until_set_aside(other)["reason"]
        [alert] = orders.open_alerts()
        assert (alert["kind"], alert["task_id"]) == ("submission_conflict", order_id)
        assert postgres_database.rows("SELECT id, cents FROM orders") == [(order_id, 4_200)]
        assert orders.payments() == [{"id": order_id, "cents": 4_200, "state": "charged", "calls": 1}]


def test_a_submission_process_killed_between_receiving_and_committing_costs_nothing(
    postgres_database: PostgresDatabase, tmp_path: Path
):
    with Orders(tmp_path, store=on(postgres_database), message_lock="2s") as orders:
        [office] = orders.start(OFFICE)
        before = orders.place("tok_visa")
        orders.until_told(before, "received")
        look = postgres_database.look

        with look.transaction():
            look.execute(f"LOCK TABLE {postgres_database.schema}.orders IN ACCESS EXCLUSIVE MODE")
            order_id = orders.place("tok_visa")
            eventually(lambda: waits_for_the_table(postgres_database), bool, what="somebody at the table")
            office.kill()

        assert postgres_database.rows("SELECT id FROM orders") == [(before,)]
        assert postgres_database.rows("SELECT id FROM task") == [(before,)]
        orders.start(INGEST)
        orders.until_told(order_id, "received")
        assert sorted(postgres_database.rows("SELECT id FROM orders")) == sorted([(before,), (order_id,)])
        assert orders.queue("orders") == EMPTY


def waits_for_the_table(database: PostgresDatabase) -> bool:
    query = (
        "SELECT 1 FROM pg_locks JOIN pg_class ON pg_class.oid = relation WHERE relname = 'orders'"
        " AND relnamespace = ?::regnamespace AND NOT granted"
    )
    return bool(database.rows(query, database.schema))
