"""The tree of commands, as ``--help`` shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import typer

from backstay.cli import commands
from tools.reference import markdown

ABOUT: Final = """\
Every command takes `--help`. Exit codes: 0 it worked, 1 the operation failed, 2 the command was written
wrongly. [Run it, look at it, step in](../operating.md) shows the commands at work."""


#: Typer's own; whether they are there depends on what else is installed.
COMPLETION: Final = {"install_completion", "show_completion"}


def page() -> str:
    # Whatever typer makes of its declarations has no public type.
    root: Any = typer.main.get_command(commands)
    return markdown.page("Commands", f"{ABOUT}\n\n{root.epilog}", _told(root, ("backstay",)))


def _told(command: Any, path: Sequence[str]) -> Iterator[str]:
    """A command, and those below it."""
    below: dict[str, Any] = getattr(command, "commands", {})
    words = " ".join(path)
    if below:
        yield f"## {words}"
    else:
        yield f"### {words}"
        yield f"```text\n{_usage(command, words)}\n```"
    yield str(command.help).replace("\b\n", "").strip()
    yield from markdown.table(
        ("", ""), (_argument(one) for one in command.params if one.help and one.name not in COMPLETION)
    )
    for name, one in sorted(below.items(), key=lambda entry: hasattr(entry[1], "commands")):
        yield from _told(one, (*path, name))


def _usage(command: Any, words: str) -> str:
    options = "[OPTIONS]" if any(_is_option(one) for one in command.params) else ""
    arguments = [_placeholder(one) for one in command.params if not _is_option(one)]
    return " ".join(word for word in (words, options, *arguments) if word)


def _placeholder(argument: Any) -> str:
    name = str(argument.metavar or argument.name.upper()).strip("[]{}") + ("…" if argument.nargs != 1 else "")
    return name if argument.required else f"[{name}]"


def _argument(one: Any) -> tuple[str, str]:
    if not _is_option(one):
        return markdown.code(_placeholder(one)), _meaning(one)
    written = ", ".join([*one.opts, *one.secondary_opts])
    return markdown.code(f"{written} {'' if one.is_flag else one.metavar or ''}".strip()), _meaning(one)


def _meaning(one: Any) -> str:
    shown = one.show_default and one.default not in (None, False, ()) and not callable(one.default)
    default = f" Default: {_default(one.default)}." if shown else ""
    return f"{one.help}{default}"


def _default(value: object) -> str:
    return markdown.code(str(getattr(value, "value", value)))


def _is_option(parameter: Any) -> bool:
    return str(parameter.opts[0]).startswith("-")
