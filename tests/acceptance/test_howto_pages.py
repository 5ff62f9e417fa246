"""The pages in docs/howto and docs/concepts: their programs have tests of their own, and these pass.

The blocks of Python of a page are one module. What begins with ``test_`` in it is called; where a page has commands,
they are typed in their order, beside a file of each block that begins with its name.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.pages import DOCS, Page, Shell
from tests.support.ports import free_ports

PAGES: Final = sorted(
    path.relative_to(DOCS).as_posix() for kind in ("howto", "concepts") for path in (DOCS / kind).glob("*.md")
)
#: Beside these no block of a page is taken for code.
LANGUAGES: Final = {"python", "console", "text", "ini", "toml", "sql"}


def module_of(page: Page, name: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile("\n\n".join(page.blocks("python")), name, "exec"), names)
    return names


@pytest.mark.parametrize("name", PAGES)
def test_the_tests_on_the_page_pass(name: str):
    page = Page(name)
    names = module_of(page, name)

    tests = [one for called, one in names.items() if called.startswith("test_")]
    assert tests or not page.blocks("python") or page.blocks("console"), "a program that nobody runs"
    for test in tests:
        if inspect.iscoroutinefunction(test):
            asyncio.run(test())
        else:
            test()


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_the_page_says_what_it_is(name: str):
    languages = re.findall(r"^```(\w*)\n.*?^```$", Page(name).text, re.MULTILINE | re.DOTALL)

    assert set(languages) <= LANGUAGES
