"""A certificate file is first opened by a process that may die of it.

How long that takes the file says itself: in how many rounds its keys come from its password, two thousand
million if it likes, and how large a key is to be checked. What opens it knows no limit, cannot be
interrupted, and lets nothing else of its process run meanwhile. To read the numbers beforehand is not enough:
what is encrypted may hold more of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

#: So much computing is allowed, loading the library included. An ordinary file takes some milliseconds.
CPU_SECONDS_MAX: Final = 2
#: Where the machine is busy, or has no limit of the other kind.
SECONDS_MAX: Final = 60.0

_OPENING: Final = Path(__file__).with_name("opening.py")


def opens_in_time(pfx: str, password: str) -> bool:
    """Whether it is known in bounded time what is in the file; not whether it is good. Takes a while."""
    try:
        ended = subprocess.run(  # noqa: S603  Our own program, and what it is given is no argument.
            [sys.executable, "-I", str(_OPENING), str(CPU_SECONDS_MAX)],
            input=json.dumps([pfx, password]).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    # Below zero: it did not end by itself.
    return ended.returncode >= 0
