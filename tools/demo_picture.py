"""Draw docs/demo.svg: one moment of a real run of the demo, while a breaker is open."""

from __future__ import annotations

import asyncio
import io
import re
import sys
import tempfile
from pathlib import Path
from random import Random

from rich.console import Console

from drone_delivery.demo.course import run
from drone_delivery.demo.plan import Plan
from drone_delivery.demo.scene import Phase, Scene
from drone_delivery.demo.screen import WIDTH, Picture

TARGET = Path(__file__).resolve().parents[1] / "docs" / "demo.svg"
SECONDS = 20
HEIGHT = 28
KILL_EVERY_SECONDS = 4


class Camera(Picture):
    """Keeps the last moment in which there was most to see."""

    def __init__(self) -> None:
        super().__init__(Console(width=WIDTH, height=HEIGHT))
        self.drawing: str | None = None
        self._most = -1

    def show(self, scene: Scene) -> None:
        super().show(scene)
        there = len(scene.seen.counts) + sum(agent.breakers_open for agent in scene.seen.agents.values())
        if scene.phase is Phase.RUNNING and there >= self._most:
            self._most = there
            console = Console(record=True, width=WIDTH, file=io.StringIO())
            console.print(self.drawn())
            self.drawing = console.export_svg(title="backstay demo --kill-every 4")


def main() -> int:
    """0 when the run that was drawn reconciled."""
    camera = Camera()
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(
            rate=40,
            seconds=SECONDS,
            kill_every_seconds=KILL_EVERY_SECONDS,
            port=8080,
            store=f"sqlite:///{folder}/backstay.db",
            folder=Path(folder),
        )
        report = asyncio.run(run(plan, camera, Random()))
    assert camera.drawing is not None
    # The picture stands alone: a browser takes its own monospaced font instead of fetching one.
    TARGET.write_text(re.sub(r"@font-face \{.*?\}\s*", "", camera.drawing, flags=re.DOTALL), encoding="utf-8")
    print("\n".join(report.lines()))
    return 0 if report.reconciled else 1


if __name__ == "__main__":
    sys.exit(main())
