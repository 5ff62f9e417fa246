"""A connection that cannot carry a task is refused with the reason, and nothing is written through it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from backstay import App, Client, IdConflict
from backstay.errors import Closed, Conflict, InvalidInput, InvalidRequest, StoreUnavailable
from tests.support.databases import Database, PostgresDatabase, SqliteDatabase


@contextmanager
def nothing_is_written(database: Database) -> Iterator[None]:
    before = database.content()
    yield
    assert database.content() == before


class Unknown:
    """A connection of nobody's, which would tell its password."""

    def __repr__(self) -> str:
        return "Unknown(password=sesame)"


# ------------------------------------------------------------ either database


class TestEither:
    @pytest.fixture(params=["sqlite", "postgres"])
    def database(self, request: pytest.FixtureRequest) -> Database:
        database: Database = request.getfixturevalue(f"{request.param}_database")
        return database

    @pytest.mark.parametrize(
        "thing",
        [Unknown(), "postgresql://ann:sesame@host/shop", 5, object()],
        ids=lambda thing: type(thing).__name__,
    )
    async def test_what_is_no_connection_is_refused_by_its_type_alone(
        self, client: Client, database: Database, thing: Any
    ):
        with nothing_is_written(database):
            with pytest.raises(InvalidRequest, match="submit_in takes a Connection of") as within:
                await client.submit("deliver", "drone", connection=thing)
            with pytest.raises(InvalidRequest, match="submit_in takes a Connection of") as alone:
                client.submit_in(thing, "deliver", "drone")

        for refusal in (within, alone):
            assert f"{type(thing).__module__}.{type(thing).__qualname__}" in str(refusal.value)
            assert "sesame" not in str(refusal.value)

    async def test_the_task_itself_is_checked_first(self, client: Client):
        with pytest.raises(InvalidInput, match="input of workflow deliver"):
            client.submit_in(object(), "deliver", 5)

    async def test_a_client_that_is_closed_takes_nothing(self, app: App, database: Database):
        async with app.client(database.url) as client:
            pass
        with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(Closed, match="is not open"):
            client.submit_in(connection, "deliver", "drone")


# ------------------------------------------------------------ SQLite


class TestSqlite:
    @pytest.fixture
    def database(self, sqlite_database: SqliteDatabase) -> SqliteDatabase:
        return sqlite_database

    @pytest.fixture
    def connect(
        self, client: Client, database: SqliteDatabase
    ) -> Iterator[Callable[..., sqlite3.Connection]]:
        """Opens connections to the file of the store; all of them are closed at the end."""
        opened: list[sqlite3.Connection] = []

        def connect(**options: Any) -> sqlite3.Connection:
            opened.append(sqlite3.connect(database.path, **options))
            return opened[-1]

        yield connect
        for connection in opened:
            connection.close()

    async def test_a_synchronous_connection_is_sent_to_submit_in(
        self, client: Client, database: SqliteDatabase, connect: Any
    ):
        with (
            nothing_is_written(database),
            pytest.raises(
                InvalidRequest, match=r"submit\(connection=…\) does not take .*sqlite3; call submit_in"
            ),
        ):
            await client.submit("deliver", "drone", connection=connect())

    async def test_a_connection_of_another_database_is_refused(
        self, client: Client, database: SqliteDatabase, postgres_look: psycopg.Connection
    ):
        with (
            nothing_is_written(database),
            pytest.raises(
                InvalidRequest, match=r"store\.db through a Connection of psycopg: submit_in takes"
            ),
        ):
            client.submit_in(postgres_look, "deliver", "drone")

    async def test_without_a_transaction_nothing_is_written(
        self, client: Client, database: SqliteDatabase, connect: Any
    ):
        connection = connect(isolation_level=None)
        with nothing_is_written(database), pytest.raises(InvalidRequest, match="open a transaction first"):
            client.submit_in(connection, "deliver", "drone")

        connection.execute("BEGIN")
        handle = client.submit_in(connection, "deliver", "drone")
        connection.execute("COMMIT")
        assert await handle.state() == "pending"

    async def test_sqlalchemy_in_autocommit_is_refused(self, client: Client, database: SqliteDatabase):
        engine = sqlalchemy.create_engine(database.url, isolation_level="AUTOCOMMIT")
        with (
            engine.connect() as connection,
            nothing_is_written(database),
            pytest.raises(InvalidRequest, match="open a transaction first"),
        ):
            client.submit_in(connection, "deliver", "drone")
        engine.dispose()

    async def test_sqlalchemy_may_begin_by_itself(self, client: Client, database: SqliteDatabase):
        """The way in which SQLAlchemy's documentation has savepoints on SQLite work."""
        engine = sqlalchemy.create_engine(database.url)

        @sqlalchemy.event.listens_for(engine, "connect")
        def leave_it_to_sqlalchemy(connection: Any, _record: Any) -> None:
            connection.isolation_level = None

        @sqlalchemy.event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            connection.exec_driver_sql("BEGIN")

        with engine.connect() as connection:
            client.submit_in(connection, "deliver", "drone", id="rolled-back")
            connection.rollback()
            client.submit_in(connection, "deliver", "drone", id="committed")
            connection.commit()
        engine.dispose()

        assert database.rows("SELECT id FROM task") == [("committed",)]

    @pytest.mark.parametrize("other", ["other.db", ":memory:", ""])
    async def test_a_connection_to_another_file_is_refused(
        self, client: Client, database: SqliteDatabase, tmp_path: Path, other: str
    ):
        place = tmp_path / other if other.endswith(".db") else other
        with (
            closing(sqlite3.connect(place)) as connection,
            nothing_is_written(database),
            pytest.raises(
                InvalidRequest, match=r"this connection leads to (other\.db|a database in memory), not"
            ),
        ):
            client.submit_in(connection, "deliver", "drone")

    async def test_the_same_file_by_another_name_is_good(
        self, client: Client, database: SqliteDatabase, tmp_path: Path
    ):
        (tmp_path / "link.db").symlink_to(database.path)
        with closing(sqlite3.connect(tmp_path / "link.db")) as connection:
            handle = client.submit_in(connection, "deliver", "drone")
            connection.commit()

        assert await handle.state() == "pending"

    async def test_a_closed_connection_is_refused(
        self, client: Client, database: SqliteDatabase, connect: Any
    ):
        connection = connect()
        connection.close()
        with nothing_is_written(database), pytest.raises(InvalidRequest, match="on a closed database"):
            client.submit_in(connection, "deliver", "drone")

    async def test_a_connection_of_another_thread_is_refused(
        self, client: Client, database: SqliteDatabase, connect: Any
    ):
        connection = connect()
        with nothing_is_written(database), pytest.raises(InvalidRequest, match="created in a thread"):
            await asyncio.to_thread(client.submit_in, connection, "deliver", "drone")

    async def test_any_thread_may_submit(self, client: Client, connect: Any):
        def submit() -> str:
            connection = connect(check_same_thread=False)
            handle = client.submit_in(connection, "deliver", "drone", id="delivery-1")
            connection.commit()
            return handle.id

        assert await asyncio.to_thread(submit) == "delivery-1"
        assert (await client.task("delivery-1")).state == "pending"

    async def test_a_connection_that_may_only_read_is_unavailable(
        self, client: Client, database: SqliteDatabase, connect: Any
    ):
        connection = connect()
        connection.execute("PRAGMA query_only = ON")
        with nothing_is_written(database), pytest.raises(StoreUnavailable, match="readonly database"):
            client.submit_in(connection, "deliver", "drone")

    async def test_the_form_of_the_callers_rows_does_not_matter_and_stays(self, client: Client, connect: Any):
        connection = connect()
        connection.row_factory = as_object = lambda _cursor, row: {"row": row}
        connection.text_factory = bytes
        for _ in range(2):
            client.submit_in(connection, "deliver", "drone", id="delivery-1")
        with pytest.raises(IdConflict):
            client.submit_in(connection, "deliver", "kite", id="delivery-1")
        connection.commit()

        assert (connection.row_factory, connection.text_factory) == (as_object, bytes)

    async def test_what_fails_halfway_leaves_nothing_in_the_transaction(
        self, client: Client, database: SqliteDatabase, connect: Any
    ):
        """The task itself was inserted already; the caller goes on and commits."""
        connection = connect()
        connection.execute(
            "CREATE TEMP TRIGGER no_plans BEFORE INSERT ON main.step"
            " BEGIN SELECT RAISE(ABORT, 'no plans today'); END"
        )
        connection.execute("INSERT INTO orders VALUES ('drone')")
        with pytest.raises(Conflict, match=r"store\.db: no plans today"):
            client.submit_in(connection, "deliver", "drone")
        connection.commit()

        assert database.rows("SELECT name FROM orders") == [("drone",)]
        assert database.content()["task"] == []


# ------------------------------------------------------------ PostgreSQL


class TestPostgres:
    @pytest.fixture
    def database(self, postgres_database: PostgresDatabase) -> PostgresDatabase:
        return postgres_database

    @pytest.fixture
    def url(self, database: PostgresDatabase) -> str:
        return database.server.url()

    async def test_a_synchronous_connection_is_sent_to_submit_in(
        self, client: Client, database: PostgresDatabase, url: str
    ):
        with (
            psycopg.connect(url) as connection,
            nothing_is_written(database),
            pytest.raises(
                InvalidRequest, match=r"submit\(connection=…\) does not take .*psycopg; call submit_in"
            ),
        ):
            await client.submit("deliver", "drone", connection=connection)

    async def test_an_asynchronous_connection_is_sent_to_submit(
        self, client: Client, database: PostgresDatabase, url: str
    ):
        connection = await asyncpg.connect(url)
        with (
            nothing_is_written(database),
            pytest.raises(
                InvalidRequest, match=r"submit_in does not take .*asyncpg; call submit\(connection=…\)"
            ),
        ):
            client.submit_in(connection, "deliver", "drone")
        await connection.close()

    async def test_a_pool_is_not_a_connection(self, client: Client, database: PostgresDatabase, url: str):
        async with asyncpg.create_pool(url, min_size=0) as pool:
            with (
                nothing_is_written(database),
                pytest.raises(InvalidRequest, match=r"type asyncpg\.pool\.Pool"),
            ):
                await client.submit("deliver", "drone", connection=pool)

    async def test_without_a_transaction_nothing_is_written(
        self, client: Client, database: PostgresDatabase, url: str
    ):
        connection = await asyncpg.connect(url)
        other = await psycopg.AsyncConnection.connect(url, autocommit=True)
        engine = create_async_engine(url.replace(":", "+asyncpg:", 1), isolation_level="AUTOCOMMIT")
        with nothing_is_written(database):
            async with engine.connect() as third:
                for one in (connection, other, third):
                    with pytest.raises(InvalidRequest, match="open a transaction first"):
                        await client.submit("deliver", "drone", connection=one)

        async with other.transaction():
            handle = await client.submit("deliver", "drone", connection=other)
        assert await handle.state() == "pending"
        await connection.close()
        await other.close()
        await engine.dispose()

    async def test_without_a_transaction_nothing_is_written_synchronously(
        self, client: Client, database: PostgresDatabase, url: str
    ):
        engine = sqlalchemy.create_engine(url.replace(":", "+psycopg:", 1), isolation_level="AUTOCOMMIT")
        with (
            nothing_is_written(database),
            psycopg.connect(url, autocommit=True) as connection,
            engine.connect() as other,
            Session(engine) as session,
        ):
            for one in (connection, other, session):
                with pytest.raises(InvalidRequest, match="open a transaction first"):
                    client.submit_in(one, "deliver", "drone")
        engine.dispose()

    async def test_a_database_without_the_store_is_refused_and_the_transaction_goes_on(
        self, client: Client, database: PostgresDatabase
    ):
        with psycopg.connect(database.server.url("template1")) as connection:
            with (
                nothing_is_written(database),
                pytest.raises(InvalidRequest, match=f"database without the schema {database.schema}"),
            ):
                client.submit_in(connection, "deliver", "drone")
            assert connection.execute("SELECT 1").fetchone() == (1,)

    async def test_sqlalchemy_to_another_kind_of_database_is_refused(
        self, client: Client, database: PostgresDatabase
    ):
        engine = sqlalchemy.create_engine("sqlite://")
        with (
            engine.connect() as connection,
            nothing_is_written(database),
            pytest.raises(InvalidRequest, match="a connection of SQLAlchemy to sqlite"),
        ):
            client.submit_in(connection, "deliver", "drone")
        engine.dispose()

    async def test_a_closed_connection_is_refused(self, client: Client, database: PostgresDatabase, url: str):
        engine = sqlalchemy.create_engine(url.replace(":", "+psycopg:", 1))
        connection, other = psycopg.connect(url), engine.connect()
        async_connection = await asyncpg.connect(url)
        connection.close()
        other.close()
        await async_connection.close()

        with nothing_is_written(database):
            for one in (connection, other):
                with pytest.raises(InvalidRequest, match="this connection is closed"):
                    client.submit_in(one, "deliver", "drone")
            with pytest.raises(InvalidRequest, match="this connection is closed"):
                await client.submit("deliver", "drone", connection=async_connection)
        engine.dispose()

    async def test_a_connection_that_was_given_back_to_its_pool_is_refused(
        self, client: Client, database: PostgresDatabase, url: str
    ):
        async with asyncpg.create_pool(url, min_size=0) as pool:
            connection = await pool.acquire()
            await pool.release(connection)
            with (
                nothing_is_written(database),
                pytest.raises(InvalidRequest, match="released back to the pool"),
            ):
                await client.submit("deliver", "drone", connection=connection)

    async def test_a_transaction_that_has_failed_is_refused(
        self, client: Client, database: PostgresDatabase, url: str
    ):
        with psycopg.connect(url) as connection:
            with pytest.raises(psycopg.errors.DivisionByZero):
                connection.execute("SELECT 1 / 0")
            with nothing_is_written(database), pytest.raises(InvalidRequest, match="roll it back first"):
                client.submit_in(connection, "deliver", "drone")
            connection.rollback()
            client.submit_in(connection, "deliver", "drone")

    async def test_a_connection_that_is_lost_is_unavailable_and_tells_no_password(
        self, client: Client, database: PostgresDatabase, url: str
    ):
        with closing(psycopg.connect(url.replace("@", ":sesame@", 1))) as connection:
            pid = connection.info.backend_pid
            database.look.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
            with nothing_is_written(database), pytest.raises(StoreUnavailable) as lost:
                client.submit_in(connection, "deliver", "drone")

        assert "sesame" not in str(lost.value)

    async def test_what_the_database_says_comes_out_as_our_error_whatever_the_driver(
        self, client: Client, database: PostgresDatabase, url: str
    ):
        """A lock that lasts is unavailable, a rule that is broken is a conflict; values are not repeated."""
        engine = sqlalchemy.create_engine(url.replace(":", "+psycopg:", 1))
        with psycopg.connect(url) as holder, psycopg.connect(url) as raw, engine.connect() as wrapped:
            client.submit_in(holder, "deliver", "drone", id="held")
            raw.execute("SET LOCAL lock_timeout = '10ms'")
            wrapped.exec_driver_sql("SET LOCAL lock_timeout = '10ms'")
            for one in (raw, wrapped):
                with pytest.raises(StoreUnavailable, match="another transaction holds") as unavailable:
                    client.submit_in(one, "deliver", "secret", id="held")
                assert "secret" not in str(unavailable.value)
                one.rollback()
            holder.rollback()
            database.look.execute(f"ALTER TABLE {database.schema}.task ADD CHECK (id <> 'bad')")
            for one in (raw, wrapped):
                with pytest.raises(Conflict, match="violates check constraint"):
                    client.submit_in(one, "deliver", "drone", id="bad")
                one.rollback()
        engine.dispose()

    async def test_the_form_of_the_callers_rows_and_placeholders_does_not_matter(
        self, client: Client, url: str
    ):
        with psycopg.connect(url, row_factory=dict_row, cursor_factory=psycopg.RawCursor) as connection:
            for _ in range(2):
                client.submit_in(connection, "deliver", "drone", id="delivery-1")
            with pytest.raises(IdConflict):
                client.submit_in(connection, "deliver", "kite", id="delivery-1")

    async def test_sqlalchemy_may_read_its_results_piece_by_piece(self, client: Client, url: str):
        engine = sqlalchemy.create_engine(url.replace(":", "+psycopg:", 1))
        for options in ({"stream_results": True}, {"yield_per": 10}):
            with engine.connect().execution_options(**options) as connection:
                handle = client.submit_in(connection, "deliver", "drone")
                connection.commit()
            assert await handle.state() == "pending"
        engine.dispose()

    async def test_a_scoped_session_is_a_session(self, client: Client, url: str):
        engine = sqlalchemy.create_engine(url.replace(":", "+psycopg:", 1))
        session = scoped_session(sessionmaker(engine))
        handle = client.submit_in(session, "deliver", "drone")
        session.commit()
        session.remove()
        engine.dispose()

        assert await handle.state() == "pending"

    async def test_any_thread_may_submit(self, client: Client, url: str):
        def submit() -> str:
            with psycopg.connect(url) as connection:
                return client.submit_in(connection, "deliver", "drone", id="delivery-1").id

        assert await asyncio.to_thread(submit) == "delivery-1"
        assert (await client.task("delivery-1")).state == "pending"


# ------------------------------------------------------------ an app that runs


async def test_an_app_that_runs_offers_both_ways(
    app: App, sqlite_database: SqliteDatabase, postgres_database: PostgresDatabase
):
    async with app.run(sqlite_database.url):
        with closing(sqlite3.connect(sqlite_database.path)) as connection:
            handle = app.submit_in(connection, "deliver", "drone", id="delivery-1")
            connection.commit()
            assert await handle.result(20) == "drone carried"
    async with app.run(postgres_database.url):
        connection = await asyncpg.connect(postgres_database.server.url())
        async with connection.transaction():
            handle = await app.submit("deliver", "drone", id="delivery-1", connection=connection)
        assert await handle.result(20) == "drone carried"
        await connection.close()


async def test_an_app_that_does_not_run_offers_neither(app: App):
    with pytest.raises(Closed, match="app 'shop' is not running"):
        app.submit_in(object(), "deliver", "drone")
