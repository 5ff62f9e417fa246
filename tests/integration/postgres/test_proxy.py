"""The network of the tests: it fails as it is told to, and is otherwise not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import asyncpg
import psycopg
import pytest

from tests.support.pgproxy import Moment, PgProxy, mentions
from tests.support.postgres import PostgresServer, drop_schema, schema_name

Connect = Callable[[], Coroutine[Any, Any, Any]]

CUT = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, ConnectionError)
MOMENTS = pytest.mark.parametrize(("moment", "kept"), [("before", []), ("after", [1])])


@pytest.fixture
async def proxy(postgres: PostgresServer) -> AsyncIterator[PgProxy]:
    async with PgProxy(postgres.port) as proxy:
        yield proxy


class Table:
    """A table of numbers, looked at past the proxy."""

    def __init__(self, direct: Any, schema: str) -> None:
        self._direct = direct
        self.insertion = f"INSERT INTO {schema}.t VALUES"
        self.name = f"{schema}.t"

    async def insert(self, connection: Any, number: int, *, commit: Callable[..., Awaitable[Any]]) -> None:
        await connection.execute("BEGIN")
        await connection.execute(f"{self.insertion} ($1)", number)
        await commit("COMMIT;")

    async def committed(self) -> list[int]:
        return [row[0] for row in await self._direct.fetch(f"SELECT n FROM {self.name} ORDER BY n")]


@pytest.fixture
async def table(postgres: PostgresServer) -> AsyncIterator[Table]:
    schema = schema_name()
    direct = await asyncpg.connect(postgres.url())
    await direct.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.t (n int)")
    yield Table(direct, schema)
    await direct.close()
    await drop_schema(postgres, schema)


@pytest.fixture
async def connect(proxy: PgProxy) -> AsyncIterator[Connect]:
    """Connects through the proxy."""
    connections = []

    async def connect() -> Any:
        connections.append(await asyncpg.connect(proxy.url()))
        return connections[-1]

    yield connect
    for connection in connections:
        connection.terminate()


@MOMENTS
async def test_a_commit_is_lost_before_or_after_the_server_has_it(
    proxy: PgProxy, connect: Connect, table: Table, moment: Moment, kept: list[int]
):
    connection = await connect()
    lost = proxy.lose_commit(moment)

    with pytest.raises(CUT):
        async with connection.transaction():
            await connection.execute(f"{table.insertion} (1)")

    await lost.wait()
    assert connection.is_closed()
    assert await table.committed() == kept


@MOMENTS
async def test_a_prepared_commit_is_lost_like_any_other(
    proxy: PgProxy, connect: Connect, table: Table, moment: Moment, kept: list[int]
):
    connection = await connect()
    prepared = await connection.prepare("COMMIT")
    lost = proxy.lose_commit(moment)

    with pytest.raises(CUT):
        await table.insert(connection, 1, commit=lambda _: prepared.fetch())

    await lost.wait()
    assert await table.committed() == kept


@MOMENTS
async def test_a_transaction_in_a_single_message_is_lost_by_the_commit_at_its_end(
    proxy: PgProxy, connect: Connect, table: Table, moment: Moment, kept: list[int]
):
    connection = await connect()
    lost = proxy.lose_commit(moment, when=mentions(table.insertion))

    with pytest.raises(CUT):
        await connection.execute(f"BEGIN; {table.insertion} (1); COMMIT")

    await lost.wait()
    assert await table.committed() == kept


@MOMENTS
async def test_a_commit_that_does_not_wait_for_the_answers_before_it_is_lost_as_well(
    proxy: PgProxy, table: Table, moment: Moment, kept: list[int]
):
    lost = proxy.lose_commit(moment, when=mentions(table.insertion))

    async def pipelined() -> None:
        connection = await psycopg.AsyncConnection.connect(proxy.url())
        async with connection, connection.pipeline():
            await connection.execute(f"{table.insertion} (1)".encode())
            await connection.commit()

    with pytest.raises(psycopg.OperationalError):
        await pipelined()

    await lost.wait()
    assert await table.committed() == kept


async def test_only_one_commit_is_lost(proxy: PgProxy, connect: Connect, table: Table):
    first, second = await connect(), await connect()
    proxy.lose_commit("before")

    with pytest.raises(CUT):
        await table.insert(first, 1, commit=first.execute)
    await table.insert(second, 2, commit=second.execute)

    assert await table.committed() == [2]


async def test_a_test_chooses_a_transaction_by_a_statement_in_it_even_one_prepared_long_before(
    proxy: PgProxy, connect: Connect, table: Table
):
    chosen, other = await connect(), await connect()
    await table.insert(chosen, 1, commit=chosen.execute)
    lost = proxy.lose_commit("before", when=mentions(table.insertion))

    for connection in (chosen, other):
        async with connection.transaction():
            await connection.execute("SELECT 1")
    assert not lost.is_set(), "what was executed before a transaction is no part of it"
    with pytest.raises(CUT):
        await table.insert(chosen, 2, commit=chosen.execute)

    await lost.wait()
    assert await table.committed() == [1]
    assert await other.fetchval("SELECT 1") == 1


async def test_the_answer_to_a_commit_is_lost_even_if_it_is_an_error(
    proxy: PgProxy, connect: Connect, table: Table
):
    connection = await connect()
    await connection.execute(f"ALTER TABLE {table.name} ADD UNIQUE (n) DEFERRABLE INITIALLY DEFERRED")
    await table.insert(connection, 1, commit=connection.execute)
    lost = proxy.lose_commit("after")

    with pytest.raises(CUT):
        await table.insert(connection, 1, commit=connection.execute)

    await lost.wait()
    assert await table.committed() == [1]


async def test_notifications_are_swallowed_and_nothing_else(proxy: PgProxy, connect: Connect):
    connection = await connect()
    heard: asyncio.Queue[str] = asyncio.Queue()
    await connection.add_listener("news", lambda *event: heard.put_nowait(event[-1]))

    proxy.swallow_notifications = True
    await connection.execute("NOTIFY news, 'swallowed'")  # it comes before the answer to this
    proxy.swallow_notifications = False
    await connection.execute("NOTIFY news, 'heard'")

    assert await heard.get() == "heard"
    assert heard.empty()


async def test_every_connection_is_cut_and_new_ones_are_made(proxy: PgProxy, connect: Connect):
    old = [await connect(), await connect()]

    proxy.drop_all()

    for connection in old:
        with pytest.raises(CUT):
            await connection.fetchval("SELECT 1")
    assert await (await connect()).fetchval("SELECT 1") == 1


async def test_new_connections_are_refused_and_old_ones_go_on(proxy: PgProxy, connect: Connect):
    old = await connect()

    proxy.refuse = True
    with pytest.raises(CUT):
        await connect()
    assert await old.fetchval("SELECT 1") == 1

    proxy.refuse = False
    assert await (await connect()).fetchval("SELECT 1") == 1


async def test_a_held_connection_hangs_until_it_is_released(proxy: PgProxy, connect: Connect):
    old = await connect()

    proxy.hold()
    waiting = {asyncio.create_task(old.fetchval("SELECT 1")), asyncio.create_task(connect())}
    done, _ = await asyncio.wait(waiting, timeout=0.1)
    assert done == set()

    proxy.release()
    assert 1 in await asyncio.gather(*waiting)


async def test_a_held_connection_can_be_cut(proxy: PgProxy, connect: Connect):
    connection = await connect()
    proxy.hold()
    waiting = asyncio.create_task(connection.fetchval("SELECT 1"))
    await asyncio.wait([waiting], timeout=0.05)

    proxy.drop_all()

    with pytest.raises(CUT):
        await waiting


async def test_a_client_finds_its_connection_closed_while_the_server_is_down(
    own_postgres: PostgresServer,
):
    async with PgProxy(own_postgres.port) as proxy:
        own_postgres.stop()
        with pytest.raises(CUT):
            await asyncpg.connect(proxy.url())

        own_postgres.start()
        connection = await asyncpg.connect(proxy.url())
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()


async def test_large_rows_pass_unharmed(connect: Connect):
    connection = await connect()
    sent = "x" * 5_000_000

    assert await connection.fetchval("SELECT $1::text || '!'", sent) == sent + "!"


def test_the_proxy_names_the_database_and_the_schema():
    proxy = PgProxy(5432)
    proxy.port = 1234

    assert proxy.url("shop", schema="s") == "postgresql://backstay@127.0.0.1:1234/shop?schema=s"
