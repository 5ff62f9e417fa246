"""Which log the setting ``streams`` names."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from backstay.errors import InvalidSetting
from backstay.messaging.embedded import EmbeddedLog
from backstay.messaging.stream import Log
from backstay.settings import Settings
from backstay.sql.sqlite.connection import SCHEME, path_of

# In the working directory, where the store is not a file that it could lie beside.
FILE: Final = "backstay-streams.db"


def log_of(settings: Settings) -> Log:
    """The log of these settings, not opened yet. Raises InvalidSetting when nothing can be behind the URL."""
    url = log_url(settings)
    if not url.startswith(SCHEME):
        # Not the address itself: there may be a password in it.
        raise InvalidSetting(
            f"streams has the scheme {url.split(':', 1)[0]!r:.60}; known: sqlite, a log in a file of this"
            " host (sqlite:///relative.db, sqlite:////absolute.db)"
        )
    # Each has a thread that writes: on one file they would only wait for each other.
    if settings.store.startswith(SCHEME) and _same_file(url, settings.store):
        raise InvalidSetting(f"streams is {url!r}, which is the store; name another file, or leave it out")
    return EmbeddedLog(url)


def log_url(settings: Settings) -> str:
    """Where the streams are: as set, else beside the store (``orders.db``: ``orders-streams.db``)."""
    if settings.streams:
        return settings.streams
    if not settings.store.startswith(SCHEME):
        return SCHEME + FILE
    return SCHEME + str(streams_beside(path_of(settings.store)))


def streams_beside(store: Path) -> Path:
    """The file of the streams that belong to the file of a store, if nobody says otherwise."""
    return store.with_name(f"{store.stem}-streams{store.suffix}")


def _same_file(one: str, other: str) -> bool:
    return path_of(one, setting="streams").resolve() == path_of(other).resolve()
