"""Messages of queues.

consumer   receives the messages of one queue and hands each to its handler
submitter  the same, for messages that become tasks: each in one transaction with its task
keeper     keeps the locks of the messages that a consumer holds, and tells which it lost
"""
