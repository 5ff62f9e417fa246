"""Where the outside world comes in.

role      everything of this kind that a process does
queues/   messages that are handed to their consumers, or become tasks
streams/  events that are read by pipelines and batches, as fast as what comes after them sustains
waiting   waiting for something, but not for ever
"""
