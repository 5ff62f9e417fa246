"""What the benches of streams share.

events       the events that are sent, as requests of a generator
apps         the application that takes them in, and one that does five steps for each
servers      processes that listen: ``backstay serve``, or the same handler as a plain ASGI application
plain_asgi   that handler, and one that only appends
deliveries   the drone delivery with back ends in the same process that take as long each time
following    events that become tasks, to the last of them
course       what happened when, in buckets of time
reconcile    what was acknowledged, compared with what is in the stream
wrk          the same requests by another client, where it is installed
"""
