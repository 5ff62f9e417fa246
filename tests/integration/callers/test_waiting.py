"""A transaction that stays open holds up nobody for long but who wants the very same."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import asyncpg
import pytest

from backstay import App, Client, Handle
from backstay.errors import StoreUnavailable
from backstay.sql.sqlite import connection as sqlite_connection
from backstay.store.base import Changes
from backstay.store.postgres import PostgresStore, submissions
from tests.support.databases import PostgresDatabase, SqliteDatabase
from tests.support.running import eventually

SOON = 20.0
# A second, and what a busy machine adds to it.
ABOUT_A_SECOND = 3.0
OTHERS = [f"other-{number}" for number in range(20)]


class TestPostgres:
    @pytest.fixture
    def database(self, postgres_database: PostgresDatabase) -> PostgresDatabase:
        return postgres_database

    @pytest.fixture
    async def connection(self, database: PostgresDatabase) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(database.server.url())
        yield connection
        await connection.close()

    async def test_another_submission_of_its_id_is_unavailable_after_about_a_second(
        self, client: Client, connection: asyncpg.Connection
    ):
        async with connection.transaction():
            await client.submit("deliver", "drone", id="delivery-1", connection=connection)
            async with asyncio.timeout(ABOUT_A_SECOND):
                with pytest.raises(StoreUnavailable, match="another transaction holds what is to be written"):
                    await client.submit("deliver", "drone", id="delivery-1")

        assert (await client.submit("deliver", "drone", id="delivery-1")).id == "delivery-1"

    async def test_another_submission_of_its_id_goes_through_when_it_rolls_back_in_time(
        self, client: Client, database: PostgresDatabase, connection: asyncpg.Connection
    ):
        transaction = connection.transaction()
        await transaction.start()
        await client.submit("deliver", "drone", id="delivery-1", connection=connection)
        waiting = asyncio.create_task(client.submit("deliver", "kite", id="delivery-1"))
        await somebody_waits(database)
        await transaction.rollback()

        await waiting
        assert (await client.task("delivery-1")).input == "kite"

    async def test_other_submissions_are_not_held_up(
        self,
        client: Client,
        database: PostgresDatabase,
        connection: asyncpg.Connection,
        monkeypatch: pytest.MonkeyPatch,
    ):
        """They are through long before those that wait for the transaction, here for as long as it takes."""
        monkeypatch.setattr(submissions, "HELD_SECONDS", 10 * SOON)
        held = [f"held-{number}" for number in range(5)]
        async with connection.transaction():
            for task_id in held:
                await client.submit("deliver", "drone", id=task_id, connection=connection)
            waiting = [asyncio.create_task(client.submit("deliver", "drone", id=one)) for one in held]
            await somebody_waits(database)
            await asyncio.gather(*(client.submit("deliver", "drone", id=one) for one in OTHERS))
            assert not any(one.done() for one in waiting)

        assert [handle.id for handle in await asyncio.gather(*waiting)] == held

    async def test_those_who_want_its_ids_are_told_so_after_about_a_second_however_many_they_are(
        self, client: Client, connection: asyncpg.Connection
    ):
        held = [f"held-{number}" for number in range(50)]
        async with connection.transaction():
            for task_id in held:
                await client.submit("deliver", "drone", id=task_id, connection=connection)
            calls = [client.submit("deliver", "drone", id=one) for one in (*held, *OTHERS)]
            async with asyncio.timeout(ABOUT_A_SECOND):
                answers = await asyncio.gather(*calls, return_exceptions=True)

        kinds = [type(answer) for answer in answers]
        assert kinds == [StoreUnavailable] * len(held) + [Handle] * len(OTHERS)

    async def test_two_transactions_with_the_same_id_are_one_after_the_other(
        self, client: Client, database: PostgresDatabase, connection: asyncpg.Connection
    ):
        second = await asyncpg.connect(database.server.url())
        transaction, other = connection.transaction(), second.transaction()
        await transaction.start()
        await other.start()
        await client.submit("deliver", "drone", id="delivery-1", connection=connection)
        waiting = asyncio.create_task(client.submit("deliver", "drone", id="delivery-1", connection=second))
        await somebody_waits(database)
        await transaction.commit()

        assert (await waiting).id == "delivery-1"
        await other.commit()
        await second.close()

    async def test_schedulers_hear_of_a_task_at_the_commit_and_of_none_before(
        self, client: Client, database: PostgresDatabase, connection: asyncpg.Connection
    ):
        store = PostgresStore(database.url)
        heard: list[Changes] = []
        await store.open()
        store.listen(heard.append)
        try:
            # The first thing that is said is: now we listen, and anything may have happened before.
            await eventually(lambda: asyncio.sleep(0, heard), lambda heard: heard and heard[0].foreign)
            del heard[:]
            for task_id, ending in (("rolled-back", "ROLLBACK"), ("committed", "COMMIT")):
                await connection.execute("BEGIN")
                await client.submit("deliver", "drone", id=task_id, connection=connection)
                await connection.execute(ending)
            await eventually(lambda: asyncio.sleep(0, heard), bool)
        finally:
            await store.close()

        assert [changes.claimable for changes in heard] == [True]


async def somebody_waits(database: PostgresDatabase) -> None:
    """Until a transaction waits for another one."""

    async def look() -> int:
        query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        [(count,)] = database.look.execute(query).fetchall()
        return int(count)

    await eventually(look, bool, what="a transaction that waits")


class TestSqlite:
    @pytest.fixture
    def database(self, sqlite_database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch) -> SqliteDatabase:
        monkeypatch.setattr(sqlite_connection, "BUSY_TIMEOUT_MS", 100)
        return sqlite_database

    @pytest.fixture
    def connection(self, client: Client, database: SqliteDatabase) -> Iterator[sqlite3.Connection]:
        """One that does not wait for locks, opened after the store has made its file."""
        with closing(sqlite3.connect(database.path, timeout=0)) as connection:
            yield connection

    async def test_whoever_submits_while_it_holds_the_write_lock_for_too_long_is_told_so(
        self, client: Client, connection: sqlite3.Connection
    ):
        client.submit_in(connection, "deliver", "drone", id="delivery-1")
        calls = [client.submit("deliver", "drone", id=one) for one in OTHERS]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(answer) for answer in answers} == {StoreUnavailable}
        connection.commit()

        for one in OTHERS:
            await client.submit("deliver", "drone", id=one)
        assert (await client.task("delivery-1")).state == "pending"

    async def test_an_application_goes_on_after_it(
        self, app: App, client: Client, database: SqliteDatabase, connection: sqlite3.Connection
    ):
        async with app.run(database.url):
            first = client.submit_in(connection, "deliver", "drone")
            with pytest.raises(StoreUnavailable):
                await app.submit("deliver", "kite")
            connection.commit()
            second = await app.submit("deliver", "kite")

            assert await first.result(SOON) == "drone carried"
            assert await second.result(SOON) == "kite carried"

    async def test_a_caller_that_does_not_get_the_write_lock_is_told_so(
        self, client: Client, database: SqliteDatabase, connection: sqlite3.Connection
    ):
        with closing(sqlite3.connect(database.path)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match=r"store\.db: another connection holds the write lock"):
                client.submit_in(connection, "deliver", "drone", id="delivery-1")
        connection.rollback()

        client.submit_in(connection, "deliver", "drone", id="delivery-1")
        connection.commit()
        assert (await client.task("delivery-1")).state == "pending"

    async def test_a_caller_that_read_before_somebody_wrote_is_told_so(
        self, client: Client, connection: sqlite3.Connection
    ):
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM orders").fetchone()
        await client.submit("deliver", "drone", id="other")
        with pytest.raises(StoreUnavailable, match="another connection wrote since this transaction began"):
            client.submit_in(connection, "deliver", "drone", id="delivery-1")
        connection.rollback()

        client.submit_in(connection, "deliver", "drone", id="delivery-1")
        connection.commit()
