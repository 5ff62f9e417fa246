"""The scene in the terminal: live where there is one, plain lines where there is none."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from drone_delivery.addresses import DEFAULT_PORTS
from drone_delivery.demo.scene import Phase, Scene

STORY_LINES_MIN: Final = 3
STORY_LINES_MAX: Final = 12
PLAIN_EVERY_SECONDS: Final = 1.0
WIDTH: Final = 96
_BAR_COLUMNS: Final = 48
_BEATS: Final = 24
_FRAME_ROWS: Final = 2
_LEVELS: Final = " ▁▂▃▄▅▆▇█"
_COLOURS: Final = {
    "pending": "yellow",
    "processing": "cyan",
    "waiting": "yellow",
    "undoing": "magenta",
    "processed": "green",
    "undone": "blue",
    "error": "bold red",
    "undo_failed": "bold red",
}
#: Shown even when there are none.
_ALWAYS: Final = frozenset({"processing", "waiting", "undoing", "processed", "undone", "error"})


class Screen(Protocol):
    def show(self, scene: Scene) -> None: ...

    def tell(self, line: str) -> None: ...


@contextmanager
def screen(console: Console) -> Iterator[Screen]:
    """The screen that suits ``console``."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield Lines(console)
        return
    picture = Picture(console)
    with Live(console=console, refresh_per_second=5, get_renderable=picture.drawn):
        yield picture


class Lines:
    """One line per event, and one a second while anything changes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_seconds = 0.0
        self._last = ""
        self._heard = True

    def show(self, scene: Scene) -> None:
        if scene.phase is Phase.STARTING or scene.seconds < self._next_seconds:
            return
        counts = scene.seen.counts
        states = "".join(f"  {state} {counts[state]}" for state in _COLOURS if counts[state])
        lag = f"  lag {scene.seen.lag}" if scene.seen.lag else ""
        line = f"accepted {scene.accepted}{lag}{states}  {_headway(scene)}"
        if line != self._last:
            self.tell(f"{scene.seconds:5.1f} s  {line}")
            self._last = line
            self._next_seconds = scene.seconds + PLAIN_EVERY_SECONDS

    def tell(self, line: str) -> None:
        try:
            if self._heard:
                self._console.print(line, highlight=False, markup=False, soft_wrap=True)
        except SystemExit:
            # So says rich that nobody reads any more, as behind `| head`. The demo goes on to its end.
            self._heard = False


def _headway(scene: Scene) -> str:
    open_breakers = [name for name, agent in scene.seen.agents.items() if agent.breakers_open]
    breakers = f"  breaker open: {', '.join(open_breakers)}" if open_breakers else ""
    return f"({scene.ending_per_second:.0f}/s, {scene.seen.calls.repeated} retries){breakers}"


class Picture:
    """Drawn anew several times a second, as large as the terminal lets it be."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._scene: Scene | None = None
        self._story: deque[str] = deque(maxlen=STORY_LINES_MAX)
        self._beats: deque[float] = deque(maxlen=_BEATS)

    def show(self, scene: Scene) -> None:
        self._scene = scene
        self._beats.append(scene.ending_per_second)

    def tell(self, line: str) -> None:
        self._story.append(line)

    def drawn(self) -> Panel:
        parts: list[Table | Text] = []
        if self._scene is not None:
            scene = self._scene
            parts = [
                _headline(scene, list(self._beats)),
                Text(),
                _deliveries(scene),
                Text(),
                _services(scene),
                Text(),
            ]
        rows = sum(part.row_count if isinstance(part, Table) else 1 for part in parts)
        # One line is left to the prompt: what is as high as the terminal flickers.
        lines = max(STORY_LINES_MIN, self._console.height - rows - _FRAME_ROWS - 1)
        return _framed(*parts, _story(list(self._story)[-lines:]), width=min(WIDTH, self._console.width))


def _framed(*parts: Table | Text, width: int) -> Panel:
    return Panel(
        Group(*parts),
        title="[bold]Backstay[/] · drone delivery",
        title_align="left",
        border_style="bright_black",
        padding=(0, 1),
        width=width,
    )


def _headline(scene: Scene, beats: list[float]) -> Table:
    line = Table.grid(expand=True)
    line.add_column()
    line.add_column(justify="right")
    line.add_row(
        Text.assemble(
            ("● ", "green" if scene.phase is Phase.RUNNING else "yellow"), scene.phase, "  ", scene.url
        ),
        Text.assemble(
            ("lag ", "bright_black"),
            (f"{scene.seen.lag:,}", "bold"),
            (f"   {scene.seconds:.1f} s", "bright_black"),
        ),
    )
    line.add_row(
        Text.assemble(
            ("accepted ", "bright_black"),
            (f"{scene.accepted:,}", "bold"),
            ("  in flight ", "bright_black"),
            (f"{scene.seen.in_flight:,}", "bold"),
            ("  retries ", "bright_black"),
            (f"{scene.seen.calls.repeated:,}", "bold"),
        ),
        Text.assemble((_sparkline(beats), "green"), f" {scene.ending_per_second:4.0f}/s"),
    )
    return line


def _deliveries(scene: Scene) -> Table:
    counts, total = scene.seen.counts, max(1, len(scene.seen.states))
    rows = Table.grid(padding=(0, 1))
    rows.add_column(width=11)
    rows.add_column(justify="right", width=7)
    rows.add_column(width=_BAR_COLUMNS)
    for state, colour in _COLOURS.items():
        if counts[state] or state in _ALWAYS:
            filled = -(-counts[state] * _BAR_COLUMNS // total)
            rows.add_row(Text(state, style=colour), f"{counts[state]:,}", Text("━" * filled, style=colour))
    return rows


def _services(scene: Scene) -> Table:
    rows = Table.grid()
    rows.add_column(style="bright_black", width=10)
    for _ in DEFAULT_PORTS:
        rows.add_column(width=13)
    rows.add_row("service", *DEFAULT_PORTS)
    rows.add_row("is", *(_state(name, scene) for name in DEFAULT_PORTS))
    rows.add_row("breaker", *(_breaker(name, scene) for name in DEFAULT_PORTS))
    rows.add_row("calls now", *(_calls_now(name, scene) for name in DEFAULT_PORTS))
    return rows


def _state(name: str, scene: Scene) -> Text:
    state = scene.seen.services.get(name, "-")
    return Text(state, style="green" if state == "up" else "bold red")


def _breaker(name: str, scene: Scene) -> Text:
    agent = scene.seen.agents.get(name)
    if agent is None:
        return Text("-", style="bright_black")
    return Text("open", style="bold red") if agent.breakers_open else Text("closed", style="green")


def _calls_now(name: str, scene: Scene) -> Text:
    agent = scene.seen.agents.get(name)
    # Processes tell it now and then; what the last one told when everything had ended is old.
    known = agent is not None and scene.phase is not Phase.STOPPING
    return Text(str(agent.in_flight) if agent is not None and known else "-")


def _story(lines: list[str]) -> Text:
    shown = [Text(line, style="bold red" if "kill -9" in line else "") for line in lines]
    story = Text("\n").join(shown)
    story.no_wrap, story.overflow = True, "ellipsis"
    return story


def _sparkline(beats: list[float]) -> str:
    highest = max(beats, default=0.0) or 1.0
    top = len(_LEVELS) - 1
    return "".join(_LEVELS[round(beat / highest * top)] for beat in beats)
