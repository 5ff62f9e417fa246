"""All of them, and where they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.reference import cli, http, python

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "reference"


def pages() -> dict[Path, str]:
    """What each page is to hold."""
    return {
        FOLDER / "python.md": python.page(),
        FOLDER / "http.md": http.page(),
        FOLDER / "cli.md": cli.page(),
    }
