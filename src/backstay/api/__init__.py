"""The HTTP interface: one table of routes, from which routing, access and the OpenAPI document follow.

application   the layers around the table: border, guard, mounts, router
occupancy     how many requests may be under way
fast_lane     plain requests that append events, past these layers; plain_heads says which those are
mounts        applications of the user's own, behind the same guard
routes        the table
routing       what a route is, and how a request becomes the call of its handler
contents      events as a body: one, or lines of them; large ones wait for their turn
calls         what a handler is given, and what it may give back
parameters    paths and queries as the structs that handlers declare
shapes        types that several routes take
admission     how many tasks may wait
lookouts      one look for all who watch the same task
openapi       the document; docs_page shows it to people
arm           the REST API of Azure Scheduler: a table, handlers and errors of its own
tasks, events, operators, queues, streams, records, health, metrics (and stream_metrics), documents:
the handlers

What it shares with the console, who is let in among it, is in ``backstay.web``.
"""

from __future__ import annotations

from backstay.api.application import Interface, build

__all__ = ["Interface", "build"]
