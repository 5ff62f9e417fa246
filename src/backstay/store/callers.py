"""What callers hand in to have a task entered in a transaction of their own.

A kind of connection is recognised by the name of its class and of the package that the class comes
from, so that no driver is imported that the caller does not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from backstay.errors import InvalidRequest


class Way(StrEnum):
    """The two ways into a caller's transaction, as a caller writes them."""

    SUBMIT = "submit(connection=…)"
    SUBMIT_IN = "submit_in"


class Kind(StrEnum):
    """A kind of connection, in the words of an error message."""

    ASYNCPG = "a Connection of asyncpg"
    PSYCOPG_ASYNC = "an AsyncConnection of psycopg"
    SQLALCHEMY_ASYNC = "an AsyncConnection of SQLAlchemy"
    SQLALCHEMY_ASYNC_SESSION = "an AsyncSession of SQLAlchemy"
    PSYCOPG = "a Connection of psycopg"
    SQLITE3 = "a Connection of sqlite3"
    SQLALCHEMY = "a Connection of SQLAlchemy"
    SQLALCHEMY_SESSION = "a Session of SQLAlchemy"


Accepted = Mapping[Way, tuple[Kind, ...]]

_KINDS: Final = {
    "asyncpg.Connection": Kind.ASYNCPG,
    "asyncpg.PoolConnectionProxy": Kind.ASYNCPG,
    "psycopg.AsyncConnection": Kind.PSYCOPG_ASYNC,
    "psycopg.Connection": Kind.PSYCOPG,
    "sqlite3.Connection": Kind.SQLITE3,
    "sqlalchemy.AsyncConnection": Kind.SQLALCHEMY_ASYNC,
    "sqlalchemy.AsyncSession": Kind.SQLALCHEMY_ASYNC_SESSION,
    "sqlalchemy.async_scoped_session": Kind.SQLALCHEMY_ASYNC_SESSION,
    "sqlalchemy.Connection": Kind.SQLALCHEMY,
    "sqlalchemy.Session": Kind.SQLALCHEMY_SESSION,
    "sqlalchemy.scoped_session": Kind.SQLALCHEMY_SESSION,
}


def recognised(connection: object, way: Way, *, accepted: Accepted, store: str) -> Kind:
    """The kind of ``connection``. Raises InvalidRequest when ``store`` does not take it on this way in."""
    kind = _kind_of(connection)
    if kind not in accepted[way]:
        raise refusal(connection, way, accepted=accepted, store=store)
    return kind


def refusal(connection: object, way: Way, *, accepted: Accepted, store: str) -> InvalidRequest:
    """Why ``store`` does not take ``connection`` on this way in, and what it takes."""
    kind = _kind_of(connection)
    # Its type only: what it says of itself may hold a password.
    given = kind or f"an object of the type {type(connection).__module__}.{type(connection).__qualname__}"
    for other, kinds in accepted.items():
        if kind in kinds:
            return InvalidRequest(f"{way} does not take {given}; call {other} with it")
    taken = "; ".join(f"{other} takes {' or '.join(kinds)}" for other, kinds in accepted.items() if kinds)
    return InvalidRequest(f"nothing can be submitted to {store} through {given}: {taken}")


def _kind_of(connection: object) -> Kind | None:
    """The kind of ``connection``, or of what its class is derived from; ``None`` when it is unknown."""
    for cls in type(connection).__mro__:
        package = cls.__module__.partition(".")[0]
        if (kind := _KINDS.get(f"{package}.{cls.__name__}")) is not None:
            return kind
    return None


def check_dialect(dialect: Any, expected: str, *, store: str) -> None:
    """Raises InvalidRequest for a connection of SQLAlchemy to another kind of database."""
    if dialect.name != expected:
        raise InvalidRequest(
            f"nothing can be submitted to {store} through a connection of SQLAlchemy to {dialect.name}"
        )


def drivers_own(error: Exception) -> Exception:
    """The driver's error inside one of SQLAlchemy, which would repeat every value in its message."""
    return getattr(error, "orig", None) or error


def is_sqlalchemys_refusal(error: Exception) -> bool:
    """Whether SQLAlchemy itself refused: a connection or session is closed, or in no state for this."""
    names = {f"{cls.__module__}.{cls.__name__}" for cls in type(error).__mro__}
    return "sqlalchemy.exc.InvalidRequestError" in names


def unusable(why: object) -> InvalidRequest:
    return InvalidRequest(f"nothing was submitted, since this connection cannot be used now: {why}")


def closed_connection() -> InvalidRequest:
    return InvalidRequest("nothing was submitted, since this connection is closed")


def no_transaction() -> InvalidRequest:
    return InvalidRequest(
        "this connection commits every statement by itself (autocommit), and no transaction is open on it:"
        " open a transaction first, and submit inside it"
    )
