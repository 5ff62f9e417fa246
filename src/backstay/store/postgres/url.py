"""Which database, and which schema in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from backstay.errors import InvalidSetting

SCHEMES: Final = ("postgresql", "postgres")
DEFAULT_SCHEMA: Final = "backstay"

# Written into SQL as it is, so nothing that would need quoting. PostgreSQL cuts names at 63 bytes.
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where the store lies: ``dsn`` for the driver, ``label`` for people, without the password."""

    dsn: str
    schema: str
    label: str


def address_of(url: str) -> Address:
    """``postgresql://user:password@host:port/database?schema=backstay``; other options go to the driver."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        # Its words are left out: what it takes for the port may be part of the password.
        raise InvalidSetting("store is not a URL; write postgresql://user@host:port/database") from None
    if parts.scheme not in SCHEMES:
        raise InvalidSetting(f"store has the scheme {parts.scheme!r}; write postgresql://user@host/database")
    # Then a password was cut in two, and its first half would be taken for the port.
    if "@" in parts.path + parts.query.partition("=")[0] or parts.fragment:
        raise InvalidSetting(
            "user and password in the store's URL must be percent-encoded: %2F for /, %3F for ?, %23 for #"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = options.pop("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise InvalidSetting(
            f"schema in the store's URL is {schema!r}; it may hold small letters, digits and _, up to 48"
        )
    host = parts.hostname or options.get("host", "localhost")
    host = f"[{host}]" if ":" in host else host
    user = f"{parts.username}@" if parts.username else ""
    return Address(
        dsn=urlunsplit(parts._replace(query=urlencode(options))),
        schema=schema,
        label=f"postgresql://{user}{host}{port}{parts.path}",
    )
