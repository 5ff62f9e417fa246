"""Events of streams.

assembly   makes of each declaration what runs
pipeline   reads one stream for one group: holder takes partitions, each has a flow
flow       one partition, read on demand: slice_flow, lane_flow and batch_flow make something of it
lookout    calls those who wait for more to read; budget, slots and allowance say how much may be in hand
stages     what map and filter make of an event; starter, sender and via are where it ends
outbox     the same as tally, where messages are made of events: in order, as far as their queue has room
tally      what became of a partition's events; checkpointer writes that, for all of them
retention  has the log forget what nobody needs any more
"""
