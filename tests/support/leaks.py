"""Looks for secrets where none may be."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from tests.support.databases import Database, PostgresDatabase, SqliteDatabase


def tables_of(database: Database) -> list[str]:
    if isinstance(database, PostgresDatabase):
        found = database.rows("SELECT tablename FROM pg_tables WHERE schemaname = ?", database.schema)
    else:
        found = database.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
    return sorted(name for (name,) in found)


def everything_in(database: Database) -> str:
    """Every column of every table; of a file its bytes as well, and those of its log."""
    rows = [row for table in tables_of(database) for row in database.rows(f"SELECT * FROM {table}")]
    # Payloads are bytes, of which ``repr`` would show some escaped.
    text = "\n".join(_text(value) for row in rows for value in row)
    if isinstance(database, SqliteDatabase):
        files = database.path.parent.glob(f"{database.path.name}*")
        text += "".join(file.read_bytes().decode("latin-1") for file in files if file.is_file())
    return text


def _text(value: object) -> str:
    return bytes(value).decode("latin-1") if isinstance(value, bytes | memoryview) else str(value)


def leaked(secrets: Iterable[str], text: str) -> list[str]:
    """Those of the secrets that stand in the text, in any spelling in which they are sent or kept."""
    return [secret for secret in secrets if any(one in text for one in spellings(secret))]


def spellings(secret: str) -> set[str]:
    """As it is, in base64 wherever in a longer text it stands there, in a URL, and in XML."""
    urls = {quote(secret, safe=""), quote(secret), quote_plus(secret)}
    shifted = {_inner_base64(secret.encode(), shift) for shift in range(3)}
    return {
        secret,
        html.escape(secret),
        *urls,
        *shifted,
        *(one.replace("+", "-").replace("/", "_") for one in shifted),
    }


def _inner_base64(secret: bytes, shift: int) -> str:
    """What is in the base64 of every text in which this many bytes, modulo three, come before the secret."""
    whole = base64.b64encode(bytes(shift) + secret).decode()
    first = -(-shift * 8 // 6)
    last = (shift + len(secret)) * 8 // 6
    return whole[first:last]
