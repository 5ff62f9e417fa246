"""What tables are made of."""

from __future__ import annotations

from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from backstay.cli.render import visible

QUIET: Final = "bright_black"
LOUD: Final = "bold red"


def words(text: str, *, style: str = "") -> Text:
    return Text(visible(text), style=style)


def cut(text: str, *, style: str = "") -> Text:
    """What does not fit on the line is left out."""
    return Text(visible(text), style=style, no_wrap=True, overflow="ellipsis")


def columns(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style=QUIET)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def labels() -> Table:
    """Labels, and beside each what it says."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=QUIET, no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def keep_whole(table: Table, *headings: str) -> None:
    """These columns get the width they need before the others share the rest."""
    for column in table.columns:
        if column.header in headings:
            column.no_wrap = True
