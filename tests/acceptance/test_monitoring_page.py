"""docs/monitoring.md: its commands are run, and what it lists is what there is."""

from __future__ import annotations

import re
from pathlib import Path

from backstay.domain.alert import AlertKind
from tests.support.pages import Page, Shell

PAGE = Page("monitoring.md")


def test_the_page_does_what_it_says(tmp_path: Path):
    [settings] = PAGE.blocks("toml")
    (tmp_path / "backstay.toml").write_text(settings)
    [program] = PAGE.blocks("python")
    (tmp_path / "traced.py").write_text(program)
    with Shell(tmp_path, ports={}) as shell:
        shell.follow(PAGE)


def test_the_page_lists_every_kind_of_alert():
    [table] = re.findall(r"^\| kind \| raised when \|\n.*?\n\n", PAGE.text, re.MULTILINE | re.DOTALL)
    first_column = "".join(line.split("|")[1] for line in table.splitlines()[2:] if line)

    assert set(re.findall(r"`(\w+)`", first_column)) == set(AlertKind) - {AlertKind.TEST}
