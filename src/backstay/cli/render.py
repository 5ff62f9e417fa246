"""How commands speak: text for people, JSON for programs, nothing that a terminal would obey."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
import typer
from rich.console import Console, RenderableType

from backstay.domain.step import Failure
from backstay.views import Page

# Nobody reads a pipe line by line: there a row stays on one line as long as it can.
PIPE_COLUMNS: Final = 240

VALUE_LENGTH_MAX: Final = 2_000

Item = TypeVar("Item")


# Where it goes


def console() -> Console:
    """The terminal, or whatever stands in its place: then without colours and cut lines."""
    screen = Console(highlight=False, markup=False, emoji=False)
    if not screen.is_terminal and screen.width < PIPE_COLUMNS:
        screen.width = PIPE_COLUMNS
    return screen


def print_json(value: Any) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_json_line(value: Any) -> None:
    """The same on one line, for commands that go on printing."""
    typer.echo(msgspec.json.encode(value).decode())


def say(message: str) -> None:
    """The result, on one line."""
    typer.echo(visible(message))


def complain(message: str) -> None:
    """One line about what went wrong, whatever the message holds."""
    typer.echo(f"Error: {visible(message)}", err=True)


def note(message: str) -> None:
    """Something beside the result; a pipe does not see it."""
    typer.echo(visible(message), err=True)


def show_page(
    page: Page[Item], *, json: bool, table: Callable[[list[Item]], RenderableType], nothing: str
) -> None:
    """Part of a list, and how to get the next part."""
    if json:
        print_json(page)
    elif not page.items:
        note(nothing)
    else:
        console().print(table(page.items))
        if page.next is not None:
            note(f"there may be more: repeat this command with --cursor {page.next}")


# Words and numbers


def failure_text(error: Failure, *, with_step: bool = True) -> str:
    at = f" at {error.step}" if error.step and with_step else ""
    return f"{error.type}{at}: {error.message}"


def value_text(value: Any) -> str:
    """A value as JSON, its beginning if it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= VALUE_LENGTH_MAX else f"{text[: VALUE_LENGTH_MAX - 1]}…"


def visible(text: str) -> str:
    """On one line, and without anything that a terminal would obey."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
