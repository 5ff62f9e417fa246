"""Requests that come when they are due, whether or not the ones before were answered.

A client that waits for an answer before it sends the next one asks less of a server that is slow, and so does
not see how slow it is (coordinated omission). Here the plan says when each request is due, and its latency
counts from then: what waits because the server stalls is late, and shows.

plan         phases of a load, and which request is due when
histogram    latencies, in memory that does not grow
outcome      what became of the requests: counts and latencies of each phase
connection   HTTP/1.1 on one connection: a request out, an answer in
generator    the connections, the clock, and who is sent what
process      the same in a process of its own, which is how benches use it

Needs the standard library and uvloop only: it also runs in the environments of the peers.
"""
