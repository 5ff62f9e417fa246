"""Callers with a database connection of their own, one for each driver: all do the same in its words."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from backstay import Client, Handle
from tests.support.databases import Database, PostgresDatabase, SqliteDatabase


class Caller(ABC):
    """Writes orders in transactions that it begins and ends itself."""

    kind: ClassVar[str]

    #: What is handed to Backstay.
    connection: Any

    #: Where its orders are.
    orders = "orders"

    @abstractmethod
    async def connect(self) -> None: ...

    async def begin(self) -> None:
        return  # Most drivers begin with the first statement.

    @abstractmethod
    async def execute(self, sql: str) -> None: ...

    async def submit(self, client: Client, workflow: Any, *input: Any, **options: Any) -> Handle:
        return client.submit_in(self.connection, workflow, *input, **options)

    @abstractmethod
    async def commit(self) -> None: ...

    @abstractmethod
    async def roll_back(self) -> None: ...

    @abstractmethod
    async def vanish(self) -> None:
        """Cut the connection: neither commit nor roll back."""

    @abstractmethod
    async def close(self) -> None: ...

    async def order(self, name: str) -> None:
        await self.execute(f"INSERT INTO {self.orders} (name) VALUES ('{name}')")


class AsyncCaller(Caller):
    async def submit(self, client: Client, workflow: Any, *input: Any, **options: Any) -> Handle:
        return await client.submit(workflow, *input, **options, connection=self.connection)


# ------------------------------------------------------------ SQLite


class Sqlite3(Caller):
    kind = "sqlite3"

    def __init__(self, database: SqliteDatabase) -> None:
        self._path = database.path

    async def connect(self) -> None:
        self.connection = sqlite3.connect(self._path)

    async def execute(self, sql: str) -> None:
        self.connection.execute(sql)

    async def commit(self) -> None:
        self.connection.commit()

    async def roll_back(self) -> None:
        self.connection.rollback()

    async def vanish(self) -> None:
        self.connection.close()

    async def close(self) -> None:
        self.connection.close()


# ------------------------------------------------------------ PostgreSQL


class Psycopg(Caller):
    kind = "psycopg"

    def __init__(self, database: PostgresDatabase) -> None:
        self._url = database.server.url()
        self.orders = f"{database.schema}.orders"

    async def connect(self) -> None:
        self.connection = psycopg.connect(self._url)

    async def execute(self, sql: str) -> None:
        self.connection.execute(sql)

    async def commit(self) -> None:
        self.connection.commit()

    async def roll_back(self) -> None:
        self.connection.rollback()

    async def vanish(self) -> None:
        self.connection.close()

    async def close(self) -> None:
        self.connection.close()


class PsycopgAsync(AsyncCaller):
    kind = "psycopg async"

    def __init__(self, database: PostgresDatabase) -> None:
        self._url = database.server.url()
        self.orders = f"{database.schema}.orders"

    async def connect(self) -> None:
        self.connection = await psycopg.AsyncConnection.connect(self._url)

    async def execute(self, sql: str) -> None:
        await self.connection.execute(sql)

    async def commit(self) -> None:
        await self.connection.commit()

    async def roll_back(self) -> None:
        await self.connection.rollback()

    async def vanish(self) -> None:
        await self.connection.close()

    async def close(self) -> None:
        await self.connection.close()


class Asyncpg(AsyncCaller):
    kind = "asyncpg"

    def __init__(self, database: PostgresDatabase) -> None:
        self._url = database.server.url()
        self.orders = f"{database.schema}.orders"
        self._transaction: Any = None

    async def connect(self) -> None:
        self.connection = await asyncpg.connect(self._url)

    async def begin(self) -> None:
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def execute(self, sql: str) -> None:
        await self.connection.execute(sql)

    async def commit(self) -> None:
        await self._transaction.commit()

    async def roll_back(self) -> None:
        await self._transaction.rollback()

    async def vanish(self) -> None:
        self.connection.terminate()

    async def close(self) -> None:
        self.connection.terminate()


class AsyncpgPool(Asyncpg):
    kind = "asyncpg pool"

    async def connect(self) -> None:
        self._pool = await asyncpg.create_pool(self._url, min_size=1, max_size=1)
        self.connection = await self._pool.acquire()

    async def close(self) -> None:
        self._pool.terminate()


# ------------------------------------------------------------ SQLAlchemy


class SqlalchemyConnection(Caller):
    kind = "SQLAlchemy connection"

    def __init__(self, database: Database) -> None:
        self._engine = sqlalchemy.create_engine(_sqlalchemy_url(database, "psycopg"))
        if isinstance(database, PostgresDatabase):
            self.orders = f"{database.schema}.orders"

    async def connect(self) -> None:
        self.connection = self._engine.connect()

    async def execute(self, sql: str) -> None:
        self.connection.execute(sqlalchemy.text(sql))

    async def commit(self) -> None:
        self.connection.commit()

    async def roll_back(self) -> None:
        self.connection.rollback()

    async def vanish(self) -> None:
        self.connection.invalidate()

    async def close(self) -> None:
        self.connection.close()
        self._engine.dispose()


class SqlalchemySession(SqlalchemyConnection):
    kind = "SQLAlchemy session"

    async def connect(self) -> None:
        self.connection = Session(self._engine)


class SqlalchemyAsyncConnection(AsyncCaller):
    kind = "SQLAlchemy async connection"
    driver: ClassVar = "asyncpg"

    def __init__(self, database: PostgresDatabase) -> None:
        self._engine = create_async_engine(_sqlalchemy_url(database, self.driver))
        self.orders = f"{database.schema}.orders"

    async def connect(self) -> None:
        self.connection = await self._engine.connect()

    async def execute(self, sql: str) -> None:
        await self.connection.execute(sqlalchemy.text(sql))

    async def commit(self) -> None:
        await self.connection.commit()

    async def roll_back(self) -> None:
        await self.connection.rollback()

    async def vanish(self) -> None:
        await self.connection.invalidate()

    async def close(self) -> None:
        await self.connection.close()
        await self._engine.dispose()


class SqlalchemyAsyncSession(SqlalchemyAsyncConnection):
    kind = "SQLAlchemy async session"
    driver = "psycopg"

    async def connect(self) -> None:
        self.connection = AsyncSession(self._engine)


def _sqlalchemy_url(database: Database, driver: str) -> str:
    if isinstance(database, SqliteDatabase):
        return database.url
    assert isinstance(database, PostgresDatabase)
    return database.server.url().replace("postgresql:", f"postgresql+{driver}:")


ON_SQLITE: list[type[Any]] = [Sqlite3, SqlalchemyConnection, SqlalchemySession]
ON_POSTGRES: list[type[Any]] = [
    Asyncpg,
    AsyncpgPool,
    PsycopgAsync,
    Psycopg,
    SqlalchemyConnection,
    SqlalchemySession,
    SqlalchemyAsyncConnection,
    SqlalchemyAsyncSession,
]
