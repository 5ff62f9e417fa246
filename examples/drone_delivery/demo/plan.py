"""What was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``rate`` is in deliveries a second, 0 for no load; ``seconds`` is ``None`` for until Ctrl-C."""

    rate: int
    seconds: float | None
    kill_every_seconds: float | None
    port: int
    store: str
    #: Where the services keep their files, and everybody's output goes.
    folder: Path

    @property
    def log(self) -> Path:
        """The file that the stream is in."""
        return self.folder / "streams.db"

    @property
    def streams(self) -> str:
        """The same as a setting."""
        return f"sqlite:///{self.log}"
