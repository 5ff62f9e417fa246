"""Events for the streams of a server, sent in batches that make themselves.

producer    what a program holds: ``Producer``
lane        the way to one stream: one batch under way, the next one gathering meanwhile
answers     what an answer means for each event of a batch
"""

from __future__ import annotations

from backstay.producing.producer import Producer

__all__ = ["Producer"]
