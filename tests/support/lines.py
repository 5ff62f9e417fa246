"""Lines in files that other processes write."""

from __future__ import annotations

from pathlib import Path


def whole_lines(file: Path) -> list[str]:
    """Those that are there to their end: of one that is being written, a part may be read already."""
    text = file.read_text() if file.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()
