"""How often Python searches for objects that hold each other, while roles run.

Thousands of tasks in flight are hundreds of thousands of objects, and none of them is garbage: a run lets
go of everything when it ends. By its defaults Python would search them again and again, and spend half of
its time on that.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_DEFAULTS: Final = (700, 10, 10)

# A search among the youngest objects per so many new ones, instead of per 700.
YOUNGEST: Final = 100_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Have the search made rarely, unless the application has set that up itself; then as before."""
    before = gc.get_threshold()
    if before != _DEFAULTS:
        yield
        return
    gc.set_threshold(YOUNGEST, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
