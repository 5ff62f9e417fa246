"""Write ``docs/failure-modes.md`` from the rows of the failure matrix, which are tests.

The page is prose with two pairs of markers; what stands between a pair is written by this tool. The rows are
in ``tests/chaos/matrix.py`` what they are. With ``--check`` nothing is written, and the exit status is 1 when
the page is out of date.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "failure-modes.md"
sys.path.insert(0, str(ROOT))

from tests.chaos.checker import INVARIANTS  # noqa: E402  It is found once the root is on the path.
from tests.chaos.matrix import Failure, Part  # noqa: E402


class Row(NamedTuple):
    """A row, and the test that carries it."""

    failure: Failure
    file: str
    test: str


def main() -> int:
    """Bring the page up to date, or only say whether it is."""
    parser = argparse.ArgumentParser(description="Write the failure matrix into docs/failure-modes.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when out of date")
    check: bool = parser.parse_args().check

    current = PAGE.read_text(encoding="utf-8")
    wanted = written_into(current, rows())
    if current == wanted:
        return 0
    if check:
        print(f"{PAGE.name} is out of date: run `make failures`", file=sys.stderr)
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    print(f"Wrote {PAGE}")
    return 0


def rows() -> list[Row]:
    """Every test that carries a row, in the order of the parts and, within one, of the files."""
    found = [row for path in sorted((ROOT / "tests").rglob("test_*.py")) for row in _rows_in(path)]
    parts = list(Part)
    return sorted(found, key=lambda row: parts.index(row.failure.of))


def _rows_in(path: Path) -> Iterator[Row]:
    if "@failure(" not in path.read_text(encoding="utf-8"):
        return
    name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for test, value in vars(importlib.import_module(name)).items():
        for mark in getattr(value, "pytestmark", ()) if test.startswith("test_") else ():
            if mark.name == "failure":
                yield Row(mark.args[0], path.relative_to(ROOT).as_posix(), test)


def written_into(page: str, rows: list[Row]) -> str:
    """Return ``page`` with the matrix and the invariants as they are now."""
    page = _replaced(page, "matrix", "\n".join(_matrix(rows)))
    return _replaced(page, "invariants", "\n".join(_invariants(rows)))


def _matrix(rows: list[Row]) -> Iterator[str]:
    for part in Part:
        yield f"\n### {part}\n"
        yield "| when | what you see | what makes it well | how long | holds |"
        yield "|---|---|---|---|---|"
        yield from (_line(row) for row in rows if row.failure.of is part)


def _line(row: Row) -> str:
    one = row.failure
    test = f'[{one.name}](../{row.file} "{row.test}")'
    takes = f"{one.takes} (the test: within {one.within})"
    return f"| {test} | {one.seen} | {one.heals} | {takes} | {', '.join(map(str, one.invariants))} |"


def _invariants(rows: list[Row]) -> Iterator[str]:
    yield "| | invariant | rows |"
    yield "|---|---|---|"
    for number, (sentence, _) in sorted(INVARIANTS.items()):
        claimed = sum(number in row.failure.invariants for row in rows)
        yield f"| {number} | {sentence} | {claimed} |"


def _replaced(page: str, name: str, text: str) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise SystemExit(f"{PAGE.name} has no pair of markers for the {name}")
    return f"{before}{begin}{text}\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
