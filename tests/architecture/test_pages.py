"""Pages: each can be found, and each link on them leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]

_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)[^)]*\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files that a page links to, each with the section, if one is named."""
    for target in _LINK.findall(_CODE.sub("", page.read_text("utf-8"))):
        if not re.match(r"[a-z]+:", target):
            file, _, section = target.partition("#")
            yield (page.parent / file).resolve() if file else page, section


def sections(page: Path) -> set[str]:
    """The names of a page's sections, as they are linked to."""
    headings = _HEADING.findall(
        re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path):
    missing = [
        f"{target.name}#{section}"
        for target, section in links(page)
        if not target.exists() or (section and section not in sections(target))
    ]

    assert missing == []


def test_every_page_is_in_the_index_and_the_index_in_the_readme():
    listed = {target for target, _ in links(INDEX)}
    pages = {page for page in PAGES if DOCS in page.parents} - {INDEX}

    assert {page for page in pages if page.parent not in listed} <= listed
    assert INDEX in {target for target, _ in links(ROOT / "README.md")}


def test_every_page_with_programs_or_commands_is_followed_by_some_test():
    """Those in howto and concepts are, all of them."""
    shown = [
        page
        for page in DOCS.glob("*.md")
        if re.search(r"^```(python|console)$", page.read_text("utf-8"), re.MULTILINE)
    ]
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests" / "acceptance").rglob("test_*.py"))

    assert [page.name for page in shown if f'"{page.name}"' not in tests] == []
