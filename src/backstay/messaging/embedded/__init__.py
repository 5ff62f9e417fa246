"""The embedded log: streams of one host in an SQLite file of their own.

log          the verbs
writer       the one thread that writes: group commit
room         how much may wait to be written
placing      which offset an event gets, and whether its id is known
forgetting   what is removed, the oldest first
tables       one connection with its named queries
rows         events to rows and back
"""

from backstay.messaging.embedded.log import EmbeddedLog

__all__ = ["EmbeddedLog"]
