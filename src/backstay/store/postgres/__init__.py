"""The state store in a PostgreSQL database, shared by any number of processes.

url          which database, which schema
connection   how a connection is opened and checked, and what its errors mean
schema       brings the tables up to date
tables       what is done to the tables through one connection
lane         a connection that writes, and knows of each transaction whether it happened
batch        a batch of transitions in one transaction
submissions  a batch of submissions in one transaction
committer    group commit on one lane
contact      whether we were heard, so that the silence of others says something
news         what changed, told to the other processes
entering     how one task is entered through somebody else's connection, without I/O
drivers      callers' connections in the words of their drivers
callers      tasks entered in transactions of callers
session      what a process has open: lanes, group commits, news
records      controls, alerts, the audit trail, tokens, idempotency keys
supervision  who leads, and what nobody moves
store        the other verbs
"""

from backstay.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
