"""A generator in a process of its own, so that it and what it measures do not wait for each other."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import uvloop

from bench.openloop.generator import OPEN_SECONDS, generate
from bench.openloop.outcome import Outcome
from bench.openloop.plan import Load, Phase

ROOT: Final = Path(__file__).parents[2]

# To start, to open connections, and to say what became of it all.
_SPARE_SECONDS: Final = 30.0 + OPEN_SECONDS
# Requests under way are many, and none of them is garbage.
_YOUNGEST: Final = 100_000


def generate_apart(load: Load) -> Outcome:
    """As ``generate``, in another process. Raises CalledProcessError, or TimeoutExpired."""
    with tempfile.TemporaryDirectory() as folder:
        fates = Path(folder, "fates")
        done = subprocess.run(
            [sys.executable, "-m", __name__, fates],
            input=json.dumps(asdict(load)),
            stdout=subprocess.PIPE,
            text=True,
            timeout=load.seconds_max + _SPARE_SECONDS,
            cwd=ROOT,
            check=True,
        )
        return Outcome.from_json(json.loads(done.stdout), fates=fates.read_bytes())


# Inside the other process


def _load(found: dict[str, Any]) -> Load:
    return Load(**found | {"phases": [Phase(**phase) for phase in found["phases"]]})


def _main(fates: Path) -> None:
    gc.set_threshold(_YOUNGEST)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(generate(_load(json.load(sys.stdin))))
    fates.write_bytes(outcome.fates)
    json.dump(outcome.as_json(), sys.stdout)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
