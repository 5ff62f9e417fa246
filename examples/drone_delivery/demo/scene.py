"""One moment of the demo, as the screen shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from drone_delivery.demo.sight import Seen


class Phase(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    seconds: float
    phase: Phase
    url: str
    accepted: int
    #: Requests that had to be sent again until they were accepted.
    asked_again: int
    seen: Seen
    arriving_per_second: float
    ending_per_second: float
    #: The service that is out of order on purpose.
    down: str | None
    pids: Mapping[str, int | None]
