"""The page of failure modes and the tests that it is made of say the same."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tools import failure_modes

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r'^\| \[(?P<name>[^]]+)\]\(\.\./(?P<file>\S+) "(?P<test>\w+)"\)', re.MULTILINE)


def test_the_page_of_failure_modes_is_current():
    page = failure_modes.PAGE.read_text(encoding="utf-8")

    assert page == failure_modes.written_into(page, failure_modes.rows()), "run `make failures`"


def test_every_failure_on_the_page_has_a_test_that_exists():
    lines = list(LINE.finditer(failure_modes.PAGE.read_text(encoding="utf-8")))

    assert lines
    for line in lines:
        tree = ast.parse((ROOT / line["file"]).read_text(encoding="utf-8"))
        names = {one.name for one in tree.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))}
        assert line["test"] in names, line["name"]


def test_every_marked_test_is_on_the_page_once():
    on_page = [line["test"] for line in LINE.finditer(failure_modes.PAGE.read_text(encoding="utf-8"))]

    marked = []
    for path in (ROOT / "tests").rglob("test_*.py"):
        for one in ast.parse(path.read_text(encoding="utf-8")).body:
            decorators = getattr(one, "decorator_list", [])
            if any(ast.unparse(decorator).startswith("failure(") for decorator in decorators):
                marked.append(one.name)  # type: ignore[attr-defined]
    assert sorted(on_page) == sorted(marked)


def test_no_two_failures_have_the_same_name():
    names = [row.failure.name for row in failure_modes.rows()]

    assert len(set(names)) == len(names)


def test_every_invariant_is_claimed_by_some_failure():
    claimed = {number for row in failure_modes.rows() for number in row.failure.invariants}

    assert claimed == set(range(1, 17))
