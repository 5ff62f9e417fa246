"""What docs/jobs.md shows is what its commands print, in its order; its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backstay.domain.jobs.actions import MESSAGES
from backstay.domain.jobs.records import CatchUp, Overlap, Sku
from backstay.domain.jobs.skus import ALLOWANCES
from tests.support.azure_sdk import python_with
from tests.support.pages import Page, Shell
from tests.support.ports import free_ports

PAGE = Page("jobs.md")


# The SDK, if it is not there yet, is installed first.
@pytest.mark.timeout(600)
def test_the_page_works_from_top_to_bottom(tmp_path: Path):
    [port] = free_ports(1)
    blocks = [*PAGE.blocks("json"), *PAGE.blocks("python")]
    for name, block in zip(("orders.json", "azure.json", "shop.py", "jobs.py"), blocks, strict=True):
        (tmp_path / name).write_text(block.replace("8080", str(port)))
    # The page speaks of a Python that has the SDK.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {python_with("7.0.0")} "$@"\n')
    python.chmod(0o755)

    with Shell(tmp_path, ports={"8080": port}, BACKSTAY_PORT=str(port)) as shell:
        shell.follow(PAGE)

    assert len(list(PAGE.commands())) == len(re.findall(r"^\$ ", PAGE.text, re.MULTILINE)) > 0


@pytest.mark.parametrize("sku", sorted(set(ALLOWANCES) - {Sku.PREMIUM}))
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
