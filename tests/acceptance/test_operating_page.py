"""The commands in docs/operating.md do what the page shows, in its order."""

from __future__ import annotations

from pathlib import Path

from tests.support.pages import Page, Shell
from tests.support.ports import free_ports

PAGE = Page("operating.md")


def test_every_line_of_the_page_is_a_command_or_what_it_prints():
    assert len(list(PAGE.commands())) == sum(block.count("$ ") for block in PAGE.blocks("console"))


def test_the_page_works_from_top_to_bottom(tmp_path: Path):
    [program] = PAGE.blocks("python")
    (tmp_path / "shop.py").write_text(program)
    [port] = free_ports(1)

    with Shell(tmp_path, ports={"8080": port}, BACKSTAY_PORT=str(port)) as shell:
        shell.follow(PAGE)
