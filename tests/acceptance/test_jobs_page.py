"""What docs/jobs.md shows is what its commands print, in its order; its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backstay.domain.jobs.actions import MESSAGES
from backstay.domain.jobs.records import CatchUp, Overlap, Sku
from backstay.domain.jobs.skus import ALLOWANCES
from tests.support.pages import Page, Shell
from tests.support.ports import free_ports

PAGE = Page("jobs.md")


def test_the_page_works_from_top_to_bottom(tmp_path: Path):
    [program] = PAGE.blocks("python")
    orders, azure = PAGE.blocks("json")
    [port] = free_ports(1)
    (tmp_path / "shop.py").write_text(program)
    (tmp_path / "orders.json").write_text(orders.replace("8080", str(port)))
    (tmp_path / "azure.json").write_text(azure)

    with Shell(tmp_path, ports={"8080": port}, BACKSTAY_PORT=str(port)) as shell:
        shell.follow(PAGE)

    assert len(list(PAGE.commands())) == len(re.findall(r"^\$ ", PAGE.text, re.MULTILINE)) > 0


@pytest.mark.parametrize("sku", set(ALLOWANCES) - {Sku.PREMIUM})
def test_the_table_of_quotas_is_that_of_the_code(sku: Sku):
    allowed = ALLOWANCES[sku]
    fastest = f"{allowed.fastest.interval} {allowed.fastest.frequency}"

    assert f"| {sku} | {allowed.jobs:,} | {fastest} | {allowed.collections:,} |" in PAGE.text
    assert ("no request authentication" in PAGE.text.partition(f"| {sku} |")[2].splitlines()[0]) is (
        not allowed.authentication
    )


def test_every_choice_and_every_type_of_action_is_on_the_page():
    choices = [*MESSAGES, *CatchUp, *Overlap]

    assert [one for one in choices if f"`{one}`" not in PAGE.text] == []
