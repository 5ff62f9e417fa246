"""The console: pages on which people see what is running and why something is not, and step in.

application   the layers around the pages: who asks, what they may, how errors look
pages         the table of pages
guard         who is let in; sessions says who is signed in
visits        what a page is given, and what it may answer with
rendering     templates
live          parts of pages as they change
samples       the last hour, for the charts
files         scripts, styles and pictures

One module and one template for each page: overview, tasks, task (and its timeline), moves (what an operator
may do to a task), agents, agent (and its breaker_strip), supervisor, streams and stream (and progress, what
they show), queues and queue, audit, dials, sign_in. Jobs have several, in a folder of their own.
"""

from __future__ import annotations

from backstay.console.application import Console, build
from backstay.console.samples import Samples

__all__ = ["Console", "Samples", "build"]
