"""docs/orders.md is true: its commands print what it shows, and its table is that of the tests."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.orders_running import (
    DECLINED,
    GIVEN_UP,
    PENDING,
    PROCESSED,
    REPEATED,
    TO_UNDO,
    UNDO_UNDER_WAY,
    UNDONE,
    WAITING,
    Stage,
    processing,
)
from tests.support.pages import Page, Shell
from tests.support.ports import free_ports

PAGE = Page("orders.md")


def table() -> list[tuple[str, Stage | None]]:
    """What the customer sees, and the record, by the rows of the page's table."""
    rows = re.findall(r"^\| (?:is|got|was) .*\|$", PAGE.text, re.MULTILINE)
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [(seen.partition(",")[0], stage(*columns)) for _, seen, *columns in cells]


def stage(locked_by: str, complete_by: str, state: str, failures: str) -> Stage | None:
    """A column is null, or it tells what stands there."""
    if state == "there is no record yet":
        return None
    return Stage(state, int(failures), locked=locked_by != "null", due=complete_by != "null")


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path):
    web, desk, provider = free_ports(3)
    ports = {"8080": web, "8081": desk, "8090": provider}
    provider_url = f"http://127.0.0.1:{provider}"

    with Shell(tmp_path, ports=ports, BACKSTAY_PORT=str(web), PAYMENT_URL=provider_url) as shell:
        shell.follow(PAGE)

    assert len(list(PAGE.commands())) == len(re.findall(r"^\$ ", PAGE.text, re.MULTILINE)) > 0


def test_the_table_of_the_page_has_the_stages_that_the_tests_follow():
    assert table() == [
        ("placed", None),
        ("received", PENDING),
        ("started", WAITING),
        ("started", processing()),
        ("completed", PROCESSED),
        ("started", processing(failures=1)),
        ("completed", REPEATED),
        ("failed", GIVEN_UP),
        ("failed", DECLINED),
        ("failed", PENDING),
        ("completed", TO_UNDO),
        ("completed", UNDO_UNDER_WAY),
        ("undone", UNDONE),
    ]
