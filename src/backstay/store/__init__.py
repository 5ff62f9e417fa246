"""The durable record of every task.

base       the verbs: each is one transaction, none knows a policy
callers    which connections of callers a task can be entered through
commit     group commit: many transitions, one transaction, each refused on its own
groups     what is kept of those who read streams
sqlite/    one file, one writer thread, readers beside it
"""
