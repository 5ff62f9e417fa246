"""How Python itself is set while roles run. What the application has set otherwise stays."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_THRESHOLDS: Final = (700, 10, 10)
_INTERVAL_SECONDS: Final = 0.005

# Thousands of tasks in flight are hundreds of thousands of objects, and none of them is garbage: a run lets
# go of everything when it ends. A search among the youngest once there are so many more than before, instead
# of 700, which took half of the time; what comes and goes with the tasks alone is to cause none.
YOUNGEST: Final = 250_000

# The thread that writes to SQLite wants the interpreter lock for moments only, and the next commit waits
# for it. At the default, five milliseconds, that is longer than all else that it does.
INTERVAL_SECONDS: Final = 0.0005


@contextmanager
def set_up_for_roles() -> Iterator[None]:
    """Seldom search for garbage, and hand the interpreter lock over soon; afterwards as before."""
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    if thresholds == _THRESHOLDS:
        gc.set_threshold(YOUNGEST, *thresholds[1:])
    if interval == _INTERVAL_SECONDS:
        sys.setswitchinterval(INTERVAL_SECONDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
