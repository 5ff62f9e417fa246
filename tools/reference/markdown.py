"""What the pages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

NOTE: Final = "<!-- written by `make reference`: change what it describes, not this page -->"


def page(title: str, about: str, body: Iterable[str]) -> str:
    """A page of paragraphs and tables, an empty line between them."""
    return "\n\n".join([f"# {title}", NOTE, about, *body]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table, if it has rows."""
    lines = [_row(row) for row in rows]
    if lines:
        yield "\n".join([_row(head), "|" + "---|" * len(head), *lines])


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
