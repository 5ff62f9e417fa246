"""Whether another process wrote to the file: SQLite tells whoever asks, so it is asked now and then."""

from __future__ import annotations

import sqlite3
import time
from typing import Final

# How often it is asked; that costs some ten microseconds.
POLL_SECONDS: Final = 0.05

# The same while others are expected to write, and for a while after that.
ATTENTIVE_POLL_SECONDS: Final = 0.005
ATTENTIVE_SECONDS: Final = 1.5


class Others:
    """Asked by the thread that has the connection, whose own commits do not count."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._seen = data_version(connection)
        self._look_again_at = 0.0
        self._attentive_until = 0.0

    def expect(self) -> None:
        """Look more often, for a while: somebody is about to write. May be called from any thread."""
        now = time.monotonic()
        self._attentive_until = now + ATTENTIVE_SECONDS
        self._look_again_at = min(self._look_again_at, now + ATTENTIVE_POLL_SECONDS)

    @property
    def poll_seconds(self) -> float:
        attentive = time.monotonic() < self._attentive_until
        return ATTENTIVE_POLL_SECONDS if attentive else POLL_SECONDS

    def wrote(self) -> bool:
        """Whether some did since this was last answered; no answer before it is time to look again."""
        now = time.monotonic()
        if now < self._look_again_at:
            return False
        self._look_again_at = now + self.poll_seconds
        try:
            version = data_version(self._connection)
        except sqlite3.Error:
            return False  # Whoever writes next is told what is wrong.
        seen, self._seen = self._seen, version
        return version != seen


def data_version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return version
