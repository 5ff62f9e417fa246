"""docs/drone-delivery.md is true: its commands print what it shows."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.pages import Page, Shell
from tests.support.ports import free_ports

PAGE = Page("drone-delivery.md")
PORTS = ("8080", "8081", "8082", "8083", "8084", "8085", "8086")


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path):
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))

    with Shell(tmp_path, ports=ports) as shell:
        shell.follow(PAGE)

    assert len(list(PAGE.commands())) == len(re.findall(r"^\$ ", PAGE.text, re.MULTILINE)) > 0
