"""A virtual environment with the packages of a peer: made once, found again the next time."""

from __future__ import annotations

import hashlib
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.peers.catalogue import Packages
from bench.peers.processes import run

ROOT: Final = Path(__file__).parents[2]
HOME: Final = ROOT / ".bench"

INSTALL_SECONDS_MAX: Final = 900.0
_DIGEST_CHARACTERS: Final = 12


class NotInstalled(Exception):
    """Something that the bench does not install itself is missing."""


@dataclass(frozen=True, slots=True)
class Environment:
    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def stamp(self) -> Path:
        """Written last: an environment without it was left half made."""
        return self.path / "complete"


def prepare(packages: Packages, home: Path = HOME) -> Environment:
    """The environment with these packages. Raises NotInstalled, or CommandFailed."""
    environment = Environment(home / f"{packages.name}-{digest(packages)}")
    if not environment.stamp.exists():
        _keep_out_of_git(home)
        _make(environment, packages)
    return environment


def digest(packages: Packages) -> str:
    """Another one for other versions, of Python too."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    held = "\n".join([python, *packages.pins])
    return hashlib.sha256(held.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _keep_out_of_git(home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / ".gitignore").write_text("*\n")


def _make(environment: Environment, packages: Packages) -> None:
    npm = shutil.which("npm")
    if packages.npm and npm is None:
        raise NotInstalled("npm is not installed")
    _install(sys.executable, "-m", "venv", "--clear", environment.path)
    pip = (environment.python, "-m", "pip", "--disable-pip-version-check", "--quiet")
    _install(*pip, "install", *packages.python)
    if npm is not None and packages.npm:
        quietly = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error")
        _install(npm, "install", *quietly, "--prefix", environment.path, *packages.npm)
    environment.stamp.touch()


def _install(*command: str | Path) -> None:
    run(command, seconds=INSTALL_SECONDS_MAX)
