"""The state store in one SQLite file.

liveness     an operating-system lock per instance: a dead local process is known at once
rows         rows to records and back
writer       the one thread that writes: group commit
callers      tasks entered in transactions of callers
session      what a process has open: the writer, and those who read beside it
records      controls, alerts, the audit trail, tokens, idempotency keys
supervision  who leads, and what nobody moves
store        the other verbs
"""

from backstay.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
