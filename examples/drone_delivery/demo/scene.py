"""One moment of the demo, as the screen shows it."""

from __future__ import annotations

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
    seen: Seen
    ending_per_second: float
