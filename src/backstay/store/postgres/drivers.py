"""Callers' connections, each spoken to in the words of its driver: one statement in, its rows out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from backstay.errors import InvalidRequest
from backstay.sql.queries import numbered, pyformat
from backstay.store.callers import Kind, check_dialect, closed_connection
from backstay.store.postgres.entering import Statement
from backstay.store.postgres.tables import Queries
from backstay.store.rows import Row

# What psycopg and libpq call IDLE: no transaction is open.
_IDLE: Final = 0

# Whatever the caller has its own results read like: a server-side cursor can only read.
_READ_AT_ONCE: Final = {"stream_results": False, "yield_per": None}

#: A statement as a driver wants it: SQL and parameters.
Wording = Callable[[Statement], tuple[str, Any]]


class Wordings:
    """The queries of one store in the words of each driver."""

    def __init__(self, named_queries: Mapping[str, str]) -> None:
        self.numbered: Queries = {name: numbered(sql) for name, sql in named_queries.items()}
        self._pyformat = {name: pyformat(sql) for name, sql in named_queries.items()}

    def by_number(self, statement: Statement) -> tuple[str, tuple[Any, ...]]:
        sql, parameters = self.numbered[statement.query]
        return sql, tuple(statement.values[name] for name in parameters)

    def by_name(self, statement: Statement) -> tuple[str, dict[str, Any]]:
        return self._pyformat[statement.query], statement.values

    def of_sqlalchemy(self, dialect: Any) -> Wording:
        known: dict[str, Wording] = {
            "asyncpg": self.by_number,
            "psycopg": self.by_name,
            "psycopg2": self.by_name,
        }
        if dialect.driver not in known:
            raise InvalidRequest(
                f"a connection of SQLAlchemy by {dialect.driver} is of no use here;"
                f" its drivers may be {', '.join(known)}"
            )
        return known[dialect.driver]


class Driver(Protocol):
    """A synchronous connection."""

    def run(self, statement: Statement) -> list[Row]: ...

    def is_in_transaction(self) -> bool: ...


class AsyncDriver(Protocol):
    """An asynchronous connection."""

    async def run(self, statement: Statement) -> list[Row]: ...

    def is_in_transaction(self) -> bool: ...


def driver_of(connection: Any, kind: Kind, *, wordings: Wordings, store: str) -> Driver:
    if kind is Kind.PSYCOPG:
        return _Psycopg(connection, wordings)
    own = connection.connection() if kind is Kind.SQLALCHEMY_SESSION else connection
    check_dialect(own.dialect, "postgresql", store=store)
    return _Sqlalchemy(own, wordings)


async def async_driver_of(connection: Any, kind: Kind, *, wordings: Wordings, store: str) -> AsyncDriver:
    if kind is Kind.ASYNCPG:
        return _Asyncpg(connection, wordings)
    if kind is Kind.PSYCOPG_ASYNC:
        return _PsycopgAsync(connection, wordings)
    own = await connection.connection() if kind is Kind.SQLALCHEMY_ASYNC_SESSION else connection
    check_dialect(own.dialect, "postgresql", store=store)
    return _SqlalchemyAsync(own, wordings)


class _Asyncpg:
    def __init__(self, connection: Any, wordings: Wordings) -> None:
        if connection.is_closed():
            raise closed_connection()
        self._connection = connection
        self._wordings = wordings

    async def run(self, statement: Statement) -> list[Row]:
        sql, values = self._wordings.by_number(statement)
        rows: list[Row] = await self._connection.fetch(sql, *values)
        return rows

    def is_in_transaction(self) -> bool:
        return bool(self._connection.is_in_transaction())


class _Psycopg:
    def __init__(self, connection: Any, wordings: Wordings) -> None:
        if connection.closed:
            raise closed_connection()
        self._connection = connection
        self._wordings = wordings

    def run(self, statement: Statement) -> list[Row]:
        from psycopg import Cursor  # noqa: PLC0415  Only a caller who uses psycopg has it.
        from psycopg.rows import tuple_row  # noqa: PLC0415

        # Not the connection's own: the caller may have chosen other rows or other placeholders.
        with Cursor(self._connection, row_factory=tuple_row) as cursor:
            cursor.execute(*self._wordings.by_name(statement))
            return [*cursor] if cursor.description else []

    def is_in_transaction(self) -> bool:
        return _is_psycopg_in_transaction(self._connection)


class _PsycopgAsync:
    def __init__(self, connection: Any, wordings: Wordings) -> None:
        if connection.closed:
            raise closed_connection()
        self._connection = connection
        self._wordings = wordings

    async def run(self, statement: Statement) -> list[Row]:
        from psycopg import AsyncCursor  # noqa: PLC0415  As above.
        from psycopg.rows import tuple_row  # noqa: PLC0415

        async with AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(*self._wordings.by_name(statement))
            return [*await cursor.fetchall()] if cursor.description else []

    def is_in_transaction(self) -> bool:
        return _is_psycopg_in_transaction(self._connection)


class _Sqlalchemy:
    def __init__(self, connection: Any, wordings: Wordings) -> None:
        if connection.closed:
            raise closed_connection()
        self._connection = connection
        self._worded = wordings.of_sqlalchemy(connection.dialect)

    def run(self, statement: Statement) -> list[Row]:
        # Not past SQLAlchemy: with its first statement it begins, and would not commit otherwise.
        return _rows(self._connection.exec_driver_sql(*self._worded(statement), _READ_AT_ONCE))

    def is_in_transaction(self) -> bool:
        return _is_driver_in_transaction(self._connection)


class _SqlalchemyAsync:
    def __init__(self, connection: Any, wordings: Wordings) -> None:
        if connection.closed:
            raise closed_connection()
        self._connection = connection
        self._worded = wordings.of_sqlalchemy(connection.dialect)

    async def run(self, statement: Statement) -> list[Row]:
        return _rows(await self._connection.exec_driver_sql(*self._worded(statement), _READ_AT_ONCE))

    def is_in_transaction(self) -> bool:
        return _is_driver_in_transaction(self._connection.sync_connection)


def _rows(result: Any) -> list[Row]:
    """The rows of a result of SQLAlchemy; psycopg2 gives bytes another form."""
    if not result.returns_rows:
        return []
    return [[bytes(value) if isinstance(value, memoryview) else value for value in row] for row in result]


def _is_driver_in_transaction(connection: Any) -> bool:
    """Asks the driver, not SQLAlchemy: that also counts transactions in which every statement commits."""
    driver = connection.connection.driver_connection
    if connection.dialect.driver == "asyncpg":
        return bool(driver.is_in_transaction())
    return _is_psycopg_in_transaction(driver)


def _is_psycopg_in_transaction(connection: Any) -> bool:
    return bool(connection.info.transaction_status != _IDLE)
