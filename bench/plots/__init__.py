"""Pictures of a course of events, drawn by matplotlib in an environment of its own: nothing else needs it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bench.peers.catalogue import Packages
from bench.peers.environment import ROOT, prepare
from bench.progress import say
from bench.streaming.course import Course

MATPLOTLIB: Final = Packages("plots", ("matplotlib==3.11.2",))
_PROGRAM: Final = Path(__file__).with_name("draw.py")
_SECONDS_MAX: Final = 120.0


def draw(course: Course, target: Path, *, title: str) -> None:
    """A PNG: what came and was done each second, what waited, how long it took. Raises CommandFailed."""
    say(f"    drawing {target}")
    environment = prepare(MATPLOTLIB)
    subprocess.run(
        [environment.python, "-P", _PROGRAM, target.resolve(), title],
        input=json.dumps(asdict(course)),
        text=True,
        cwd=ROOT,
        timeout=_SECONDS_MAX,
        check=True,
    )
