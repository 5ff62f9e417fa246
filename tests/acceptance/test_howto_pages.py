"""The pages in docs/howto and docs/concepts: their programs have tests of their own, and these pass.

The blocks of Python of a page are one module. What begins with ``test_`` in it is called; where a page has
commands, they are typed in their order, beside a file of each block that begins with its name.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from configparser import ConfigParser
from pathlib import Path
from typing import Any, Final

import pytest

from backstay.settings import Settings
from tests.support.databases import SECRET_KEY, PostgresDatabase
from tests.support.pages import DOCS, Page, Shell
from tests.support.ports import free_ports

PAGES: Final = sorted(
    path.relative_to(DOCS).as_posix() for kind in ("howto", "concepts") for path in (DOCS / kind).glob("*.md")
)
#: Typed on a server of PostgreSQL.
MOVING: Final = "howto/moving-to-postgresql.md"
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


def typed(page: Page, folder: Path, **environment: str) -> None:
    """Type the commands of the page, beside the files that it shows."""
    for program in page.blocks("python"):
        if (file := re.match(r"# (\w+\.py)\n", program)) is not None:
            (folder / file[1]).write_text(program, "utf-8")
    ports = dict(zip(("8080", "8081"), free_ports(2), strict=True))

    with Shell(folder, ports=ports, BACKSTAY_PORT=str(ports["8080"]), **environment) as shell:
        shell.follow(page)


@pytest.mark.parametrize("name", [name for name in PAGES if Page(name).blocks("console") and name != MOVING])
def test_the_commands_on_the_page_do_what_it_shows(name: str, tmp_path: Path):
    typed(Page(name), tmp_path)


def test_an_application_moves_to_postgresql_as_the_page_says(
    postgres_database: PostgresDatabase, tmp_path: Path
):
    page = Page(MOVING)
    page.text = page.text.replace("postgresql://shop:secret@db.example/shop", postgres_database.url)

    typed(page, tmp_path, BACKSTAY_SECRET_KEY=SECRET_KEY)

    [made] = page.blocks("sql")
    with postgres_database.look.transaction(force_rollback=True):
        postgres_database.look.execute(made)


def units(page: Page) -> dict[str, ConfigParser]:
    """The files of systemd on a page, by their paths."""
    found = {}
    for block in page.blocks("ini"):
        unit = ConfigParser(interpolation=None, strict=False)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read_string(block)
        found[block.partition("\n")[0].removeprefix("# ")] = unit
    return found


def test_each_unit_of_systemd_starts_and_stops_as_the_page_says(tmp_path: Path):
    found = units(Page("howto/systemd.md"))
    assert list(found) == ["/etc/systemd/system/shop.service", "/etc/systemd/system/shop@.service"]
    (tmp_path / "shop.py").write_text("from backstay import App\n\napp = App('shop')\n")

    for unit in found.values():
        service = unit["Service"]
        assert int(service["TimeoutStopSec"]) > Settings().drain.total_seconds()
        command = service["ExecStart"].replace("/srv/shop/.venv/bin/", "").replace("${PORT}", "0")
        command = command.replace("${ROLES}", "scheduler,agents,supervisor,jobs")
        with Shell(tmp_path, ports={}, BACKSTAY_PORT="0", BACKSTAY_STORE="sqlite:///shop.db") as shell:
            shell.do(f"{command} &", ["backstay is running"])
