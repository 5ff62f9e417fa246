"""The commands in docs/recurrence.md print what the page shows, and its limits are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backstay.domain.recurrence import Frequency
from backstay.domain.recurrence.reading import COUNT_MAX, FITTING, INTERVAL_MAX
from tests.support.pages import Page, Shell

PAGE = Page("recurrence.md")


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path):
    [document] = PAGE.blocks("json")
    (tmp_path / "reports.json").write_text(document)

    with Shell(tmp_path, ports={}) as shell:
        shell.follow(PAGE)

    assert len(list(PAGE.commands())) == len(re.findall(r"^\$ ", PAGE.text, re.MULTILINE)) > 0


@pytest.mark.parametrize("element", FITTING)
def test_the_table_says_with_which_frequencies_an_element_goes(element: str):
    [told] = re.findall(
        rf"^\| `schedule\.{element}` \|.*\| with (any frequency|[a-z and]+)", PAGE.text, re.MULTILINE
    )

    named = set(Frequency) if told == "any frequency" else {one for one in Frequency if one in told.split()}
    assert named == set(FITTING[element])


def test_the_table_has_the_limits_of_the_code():
    assert f"| `interval` | 1 to {INTERVAL_MAX} |" in PAGE.text
    assert f"| `count` | 1 to {COUNT_MAX} |" in PAGE.text
    assert f"| `frequency` | {', '.join(Frequency)} |" in PAGE.text
