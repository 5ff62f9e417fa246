"""The program and the commands in docs/sending-events.md do what the page shows, in its order."""

from __future__ import annotations

from pathlib import Path

from tests.support.pages import Page, Shell
from tests.support.ports import free_ports

PAGE = Page("sending-events.md")


def test_the_page_works_from_top_to_bottom(tmp_path: Path):
    [port] = free_ports(1)
    [program] = PAGE.blocks("python")
    (tmp_path / "sensors.py").write_text(program.replace("8080", str(port)))

    with Shell(tmp_path, ports={"8080": port}, BACKSTAY_PORT=str(port)) as shell:
        shell.follow(PAGE)
