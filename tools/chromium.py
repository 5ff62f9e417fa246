"""Have a Chromium for the tests of the console: installed where that can be done, and said where it cannot.

It changes nothing where there is one. Without one the tests in ``tests/browser`` fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Final

SECONDS: Final = 300
COMMANDS: Final = (
    ("apt-get", "update", "-qq"),
    ("apt-get", "install", "-qq", "-y", "--no-install-recommends", "chromium"),
)


def main() -> int:
    if shutil.which("chromium"):
        return 0
    hindrance = _hindrance()
    if hindrance is None:
        print(f"Installing Chromium for the tests of the console (up to {SECONDS} s)", flush=True)
        hindrance = _installed()
    if hindrance is not None:
        print(
            f"Chromium is not here and was not installed: {hindrance}.\n"
            "The tests in tests/browser will fail; put a program named chromium on the path.",
            file=sys.stderr,
        )
    return 0


def _hindrance() -> str | None:
    """Why it cannot be installed from here, if so."""
    if shutil.which("apt-get") is None:
        return "this machine has no apt-get"
    if os.geteuid() != 0:
        return "only root may install it (as root: apt-get install --no-install-recommends chromium)"
    return None


def _installed() -> str | None:
    """Install it; what went wrong, if something did."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in COMMANDS:
        try:
            ended = subprocess.run(
                command, env=environment, timeout=SECONDS, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            return f"{' '.join(command)} took more than {SECONDS} s"
        if ended.returncode != 0:
            last = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-1:]
            return f"{' '.join(command)} failed: {' '.join(last)}"
    return None if shutil.which("chromium") else "it was installed, but there is no program named chromium"


if __name__ == "__main__":
    sys.exit(main())
