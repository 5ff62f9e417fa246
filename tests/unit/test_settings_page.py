"""docs/settings.md lists every setting with its default; every public name is told of somewhere."""

from __future__ import annotations

import dataclasses
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import backstay
from backstay.domain.durations import describe
from backstay.runtime.open_files import FILES_BESIDE
from backstay.runtime.protocol import CONNECTIONS_IN_RESERVE, CONNECTIONS_TURNED_AWAY
from backstay.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
#: Where something is told of by hand.
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reference")
SETTINGS = (ROOT / "docs" / "settings.md").read_text("utf-8")


def written(default: Any) -> str:
    match default:
        case bool():
            return str(default).lower()
        case timedelta():
            return describe(default)
        case int():
            return str(default)
        case _:
            return f"`{default}`" if default else "none"


def test_every_setting_is_on_the_page_with_its_default():
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", SETTINGS, re.MULTILINE)
    listed = {name: default.replace(",", "") for name, default in rows}

    assert listed == {one.name: written(one.default) for one in dataclasses.fields(Settings)}


def test_the_page_says_how_many_files_are_kept_beside_connections():
    kept = CONNECTIONS_IN_RESERVE + CONNECTIONS_TURNED_AWAY + FILES_BESIDE

    assert f"and {kept:,} more are kept" in SETTINGS


def test_every_public_name_is_on_some_page():
    text = "\n".join(page.read_text("utf-8") for page in [ROOT / "README.md", *PAGES])

    assert [name for name in backstay.__all__ if not re.search(rf"\b{name}\b", text)] == []
