"""What whoever starts a bench may choose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SPIKE_SECONDS: Final = 60
SHORT_SPIKE_SECONDS: Final = 1

GROWN_TASKS: Final = 10_000_000
SHORT_GROWN_TASKS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``short``: numbers so small that the run only shows that the bench works."""

    short: bool = False
    #: For growth: how many finished tasks there are, and whether a store from an earlier run is filled anew.
    tasks: int = GROWN_TASKS
    fresh: bool = False
    #: For spike: how long the load before it lasts.
    seconds: int = SPIKE_SECONDS
    #: For stream_to_workflow and drone: the folder that its pictures go to; None: there are none.
    plots: Path | None = None
