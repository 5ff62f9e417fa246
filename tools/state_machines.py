"""Draw the state machines in ``docs/state-machines.md`` from the arrow tables of the domain.

The page is prose with two pairs of markers; what stands between a pair is written by this tool.
With ``--check`` nothing is written, and the exit status is 1 when the page is out of date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from backstay.domain.states import STEP_ARROWS, TASK_ARROWS

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "state-machines.md"

State = TypeVar("State", bound=StrEnum)


def main() -> int:
    """Bring the page up to date, or only say whether it is."""
    parser = argparse.ArgumentParser(description="Draw the state machines in docs/state-machines.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when out of date")
    check: bool = parser.parse_args().check

    current = PAGE.read_text(encoding="utf-8")
    wanted = drawn_into(current)
    if current == wanted:
        return 0
    if check:
        print(f"{PAGE.name} is out of date: run `make diagrams`", file=sys.stderr)
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    print(f"Wrote {PAGE}")
    return 0


def drawn_into(page: str) -> str:
    """Return ``page`` with both diagrams drawn from the tables as they are now."""
    page = _replaced(page, "task arrows", mermaid(TASK_ARROWS))
    return _replaced(page, "step arrows", mermaid(STEP_ARROWS))


def mermaid(arrows: Mapping[State, frozenset[State]]) -> str:
    """Return the machine as a Mermaid diagram. Its first state begins; a state without arrows ends."""
    return "\n".join(["```mermaid", "stateDiagram-v2", *_lines(arrows), "```"])


def _lines(arrows: Mapping[State, frozenset[State]]) -> Iterator[str]:
    # In the order of the enumeration: a set has none, and the page must not change by itself.
    states = list(type(next(iter(arrows))))
    yield f"    [*] --> {states[0]}"
    for source in states:
        yield from (f"    {source} --> {target}" for target in states if target in arrows[source])
        if not arrows[source]:
            yield f"    {source} --> [*]"


def _replaced(page: str, name: str, diagram: str) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise SystemExit(f"{PAGE.name} has no pair of markers for the {name}")
    return f"{before}{begin}{diagram}\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
