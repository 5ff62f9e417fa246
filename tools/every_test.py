"""Run every test; a few that fail among real processes are looked at once more, alone, and named.

Some tests hold processes, servers and browsers to deadlines of a second. On a machine that is busy with all
the others a deadline may be missed that the code would have kept. So where no more than a few of such tests
fail, each is run again with nothing beside it: if it fails again, so does the run; if not, the run passes and
ends with a line for each, because a test that fails now and then is a defect too. Tests that compute and
compare get no second look.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FAILED: Final = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"

#: Where tests meet the clock of a machine that does other things as well.
AMONG_PROCESSES: Final = ("tests/acceptance/", "tests/browser/", "tests/chaos/", "tests/integration/")
#: More than so many are no accident of the machine.
LOOKED_AT_AGAIN_MAX: Final = 4

_SOME_FAILED: Final = 1  # pytest's own; whatever else is not 0 means that it could not go on.


def main() -> int:
    """The exit status of the tests."""
    parser = argparse.ArgumentParser(description="Run every test.")
    parser.add_argument("--workers", type=int, default=2, help="so many processes run tests at a time")
    workers: int = parser.parse_args().workers

    status = _pytest("--cache-clear", "--numprocesses", str(workers), "--dist", "worksteal")
    if status != _SOME_FAILED:
        return status
    failed = sorted(json.loads(FAILED.read_text(encoding="utf-8")))
    if not deserves_another_look(failed):
        return status
    print(f"\nAgain, one at a time, with nothing beside: {', '.join(failed)}", flush=True)
    if _pytest(*failed) != 0:
        return status
    for test in failed:
        print(f"UNSTEADY {test}: it failed beside other tests and passed alone; that is a defect too")
    return 0


def deserves_another_look(failed: Sequence[str]) -> bool:
    """Whether it may have been the machine: a few failed, and each of them has deadlines to keep."""
    among_processes = all(test.startswith(AMONG_PROCESSES) for test in failed)
    return 0 < len(failed) <= LOOKED_AT_AGAIN_MAX and among_processes


def _pytest(*arguments: str) -> int:
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
