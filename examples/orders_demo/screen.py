"""The board in the terminal: live where there is one, plain lines where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from examples.orders_demo.board import Board
from examples.orders_demo.services import TAKEN_BACK_BY

_COLOURS: Final = {
    "pending": "yellow",
    "processing": "cyan",
    "waiting": "yellow",
    "undoing": "magenta",
    "processed": "green",
    "undone": "blue",
    "error": "bold red",
}
_BAR_COLUMNS: Final = 48
_LEVELS: Final = " ▁▂▃▄▅▆▇█"
_PLAIN_EVERY_SECONDS: Final = 1.0


class Screen(Protocol):
    def update(self) -> None: ...

    def tell(self, line: str) -> None: ...


@contextmanager
def screen(board: Board, console: Console) -> Iterator[Screen]:
    """The screen that suits ``console``."""
    if not console.is_terminal:
        yield Lines(board, console)
        return
    with Live(console=console, refresh_per_second=10, get_renderable=lambda: picture(board)):
        yield Picture(board)


class Picture:
    """Drawn anew by itself several times a second."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def update(self) -> None: ...

    def tell(self, line: str) -> None:
        self._board.tell(line)


class Lines:
    """One line per event, and one a second."""

    def __init__(self, board: Board, console: Console) -> None:
        self._board = board
        self._console = console
        self._next_seconds = 0.0

    def update(self) -> None:
        board = self._board
        if board.seconds < self._next_seconds:
            return
        self._next_seconds = board.seconds + _PLAIN_EVERY_SECONDS
        counts = board.counts
        states = "  ".join(f"{state} {counts[state]}" for state in _COLOURS if counts[state])
        self.tell(f"accepted {len(board.accepted)}  {states}  ({board.per_second:.0f}/s)")

    def tell(self, line: str) -> None:
        self._console.print(self._board.tell(line), highlight=False, markup=False, soft_wrap=True)


def picture(board: Board) -> Panel:
    """Everything at a glance."""
    return Panel(
        Group(_headline(board), Text(), _states(board), Text(), _services(board), Text(), _story(board)),
        title="[bold]Backstay[/] · orders, and a process that is killed with kill -9",
        title_align="left",
        border_style="bright_black",
        padding=(1, 2),
        width=96,
    )


def _headline(board: Board) -> Table:
    alive = board.child.startswith("running")
    line = Table.grid(expand=True)
    line.add_column()
    line.add_column(justify="right")
    line.add_row(
        Text.assemble(("● ", "green" if alive else "bold red"), ("child ", "bright_black"), board.child),
        Text(f"{board.seconds:.1f} s", style="bright_black"),
    )
    line.add_row(
        Text.assemble(("orders accepted  ", "bright_black"), (f"{len(board.accepted):,}", "bold")),
        Text.assemble((_sparkline(board), "green"), f"  {board.per_second:4.0f} orders/s"),
    )
    return line


def _states(board: Board) -> Table:
    counts, total = board.counts, max(1, len(board.states))
    rows = Table.grid(padding=(0, 2))
    rows.add_column(width=10)
    rows.add_column(justify="right", width=6)
    rows.add_column(width=_BAR_COLUMNS)
    for state, colour in _COLOURS.items():
        filled = -(-counts[state] * _BAR_COLUMNS // total)
        rows.add_row(Text(state, style=colour), f"{counts[state]:,}", Text("━" * filled, style=colour))
    return rows


def _services(board: Board) -> Table:
    effects = board.effects
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="bright_black")
    for _ in TAKEN_BACK_BY:
        rows.add_column(width=16)
    rows.add_row("the services did", *(f"{done} {effects[done]:,}" for done in TAKEN_BACK_BY))
    rows.add_row("and took back", *(f"{back} {effects[back]:,}" for back in TAKEN_BACK_BY.values()))
    rows.add_row("recognised", f"{effects['repeated']:,} repeated calls")
    return rows


def _story(board: Board) -> Text:
    lines = [Text(line, style="bold red" if "kill -9" in line else "") for line in board.story]
    return Text("\n").join(lines)


def _sparkline(board: Board) -> str:
    highest = max(board.pulse, default=0) or 1
    top = len(_LEVELS) - 1
    return "".join(_LEVELS[-(-beat * top // highest)] for beat in board.pulse)
