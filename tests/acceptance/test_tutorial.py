"""Whoever types what docs/tutorial.md says, in its order, sees what it shows.

How the page is read, by its readers and here:

- The line before a block of Python says into which file it goes, and where: ``whole`` is a new file,
  ``below`` and ``in place of`` change one, ``so far`` repeats all of it.
- A block of ``console`` holds commands, each after ``$``, and all that they print. A command that ends in
  ``&``, and every command in the second terminal, runs on. Ctrl-C comes before the next one there.
- A block of ``sh`` is not run: see ``NOT_RUN``.
"""

from __future__ import annotations

import ast
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.ports import free_ports

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
PORT: Final = "8080"
PATIENCE_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 0.2
# A job that prints nothing for so long has come to rest; its agents' pauses are shorter.
QUIET_SECONDS: Final = 1.0

#: They would change the machine, or the environment that the tests run in.
NOT_RUN: Final = (
    "python -m venv .venv\n. .venv/bin/activate\npip install backstay\n",
    "pip install pytest\n",
)

SECOND_TERMINAL: Final = "**Second terminal:**"
EDIT: Final = re.compile(
    r"\*\*`(?P<file>[\w.]+)`\*\*, "
    r"(?:(?P<all>whole|so far)|(?P<place>below|in place of)(?: the import from)? `(?P<name>\w+)`):"
)

#: What differs from run to run, and how it is written here. Columns are as wide as what they hold.
VARIES: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<instant>"),
    (re.compile(r"(?<=[ ,] )(now|\d+[smhd] ago|in \d+[smhd])(?= |$)"), "<age>"),
    (re.compile(r"(?<=  )\d+(ms|s|m)(?=  )"), "<duration>"),
    (re.compile(r"(?<= passed in )\d+\.\d\ds"), "<duration>"),
    (re.compile(r"─+"), "─"),
    (re.compile(r" {2,}"), "  "),
)

#: What bash says about a job that was killed. An interactive one says it in other words.
ABOUT_A_JOB: Final = re.compile(r"bash: line \d+: +\d+ Killed ")

#: Said while a breaker is open, if the supervisor looks just then: as the page says, it may come or not.
ABOUT_A_BREAKER: Final = "alert=breaker_open "

#: These change nothing: they may be asked again until a task has come as far as the page shows.
LOOKING: Final = re.compile(r"backstay tasks (ls|show|why)\b")


# The page


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the page, the number of its first line, and the line of text before it."""

    line: int
    language: str
    instruction: str
    body: str


@dataclass(frozen=True, slots=True)
class Command:
    line: int
    text: str
    prints: tuple[str, ...]


def blocks_of(page: str) -> Iterator[Block]:
    instruction, language, first = "", None, 0
    body: list[str] = []
    for number, line in enumerate(page.splitlines(), start=1):
        if language is None and line.startswith("```"):
            language, first, body = line.removeprefix("```"), number + 1, []
        elif language is not None and line == "```":
            yield Block(first, language, instruction, "".join(f"{one}\n" for one in body))
            instruction, language = "", None
        elif language is not None:
            body.append(line)
        elif line:
            instruction = line
    assert language is None, f"the block at line {first} has no end"


def commands_of(block: Block) -> Iterator[Command]:
    lines = block.body.splitlines()
    starts = [index for index, line in enumerate(lines) if line.startswith("$ ")]
    assert starts[:1] == [0], f"line {block.line} of the page is not a command"
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield Command(block.line + start, lines[start].removeprefix("$ "), tuple(lines[start + 1 : end]))


def edited(source: str, code: str, *, place: str, name: str) -> str:
    """``source`` with ``code`` below its definition of ``name``, or in place of it."""
    lines = source.splitlines(keepends=True)
    start, end = definition(source, name)
    if place == "below":
        return "".join([*lines[:end], "\n\n", code, *lines[end:]])
    return "".join([*lines[:start], code, *lines[end:]])


def definition(source: str, name: str) -> tuple[int, int]:
    """Which lines define ``name``: a function with its decorators, a value, or what a module gives."""
    found = [node for node in ast.parse(source).body if name in names_of(node)]
    assert len(found) == 1, f"the file defines {name} {len(found)} times, and should once"
    [node] = found
    decorators = node.decorator_list if isinstance(node, ast.AsyncFunctionDef) else []
    first = decorators[0].lineno if decorators else node.lineno
    assert node.end_lineno is not None
    return first - 1, node.end_lineno


def names_of(node: ast.stmt) -> list[str]:
    match node:
        case ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.ImportFrom(module=str(module)):
            return [module]
        case _:
            return []


def without_what_varies(lines: Sequence[str]) -> list[str]:
    """What has to be the same in every run. Tables stand between empty lines, which do not count."""
    told = [
        line.rstrip() for line in lines if not (ABOUT_A_JOB.match(line) or line.startswith(ABOUT_A_BREAKER))
    ]
    for pattern, placeholder in VARIES:
        told = [pattern.sub(placeholder, line) for line in told]
    return [line for line in told if line.strip()]


# The reader


class Terminal:
    """A shell that is typed into, and what can be read on its screen."""

    def __init__(self, shell: subprocess.Popen[str]) -> None:
        self._shell = shell
        self._screen: queue.Queue[str] = queue.Queue()
        self._typed = 0
        self._runs_on = False
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self._type("trap : INT")  # As an interactive shell it survives Ctrl-C; what it runs does not.

    def run(self, command: str) -> tuple[int, list[str]]:
        """Type ``command`` and wait for its end: its exit code, and what was printed meanwhile."""
        self._type_command(command)
        return self._until_the_end()

    def start(self, command: str, *, lines: int) -> list[str]:
        """Type a ``command`` that runs on: the first ``lines`` that it prints."""
        self._type_command(command)
        self._runs_on = True
        return self._next_lines(lines)

    def start_job(self, command: str, *, lines: int) -> list[str]:
        """Type a ``command`` that runs on in the background: ``lines``, and any that follow at once."""
        self._type(f"{command.removesuffix('&')} </dev/null &")
        return [*self._next_lines(lines), *self._next_lines(1, within=QUIET_SECONDS)]

    def interrupt(self) -> None:
        """Press Ctrl-C if a command runs on."""
        if not self._runs_on:
            return
        os.killpg(self._shell.pid, signal.SIGINT)
        exit_code, printed = self._until_the_end()
        self._runs_on = False
        assert exit_code == 0, "\n".join(printed)

    def close(self) -> None:
        """End the shell and all that it started."""
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._reading.join(PATIENCE_SECONDS)

    def _type_command(self, command: str) -> None:
        self._typed += 1
        # Nothing but the shell may read what is typed next.
        self._type(f"{{ {command}\n}} </dev/null; echo {self._mark} $?")

    def _type(self, line: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{line}\n")
        self._shell.stdin.flush()

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self._screen.put(line.rstrip("\n"))

    def _until_the_end(self) -> tuple[int, list[str]]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        printed: list[str] = []
        while (line := self._next_line(deadline)) is not None:
            if line.startswith(self._mark):
                return int(line.removeprefix(self._mark)), printed
            printed.append(line)
        raise AssertionError("\n".join(["the command did not end; it printed:", *printed]))

    @property
    def _mark(self) -> str:
        return f"end-of-command-{self._typed} "

    def _next_lines(self, number: int, *, within: float = PATIENCE_SECONDS) -> list[str]:
        """The next ``number`` of lines, fewer if no more are printed in time."""
        deadline = time.monotonic() + within
        return [line for _ in range(number) if (line := self._next_line(deadline)) is not None]

    def _next_line(self, deadline: float) -> str | None:
        try:
            return self._screen.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None


@contextmanager
def terminal(folder: Path, *, port: str) -> Iterator[Terminal]:
    """A terminal in ``folder`` in which Backstay is installed, and nothing else is set."""
    bash = shutil.which("bash")
    assert bash is not None
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",  # On a terminal each line is seen when it is printed, in a pipe not.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # The page installs pytest alone.
        "BACKSTAY_PORT": port,
    }
    with subprocess.Popen(
        ["bash"],
        executable=bash,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        start_new_session=True,  # With all that it starts it can be interrupted, and ended.
    ) as shell:
        opened = Terminal(shell)
        try:
            yield opened
            opened.interrupt()
        finally:
            opened.close()


class Reader:
    """Does what the page says, in a folder, with two terminals."""

    def __init__(self, folder: Path, first: Terminal, second: Terminal, *, port: str) -> None:
        self._folder = folder
        self._first = first
        self._second = second
        self._port = port

    def follow(self, block: Block) -> None:
        match block.language:
            case "python":
                self._write(block)
            case "console" if block.instruction == SECOND_TERMINAL:
                for command in commands_of(block):
                    self._serve(command)
            case "console":
                for command in commands_of(block):
                    self._type(command)
            case "sh":
                assert block.body in NOT_RUN, f"nobody runs line {block.line} of the page"
            case _:
                raise AssertionError(f"line {block.line} of the page: what is {block.language!r}?")

    def _write(self, block: Block) -> None:
        edit = EDIT.fullmatch(block.instruction)
        assert edit is not None, f"line {block.line} of the page: where does this belong?"
        file = self._folder / edit["file"]
        if edit["all"] == "whole":
            file.write_text(block.body, "utf-8")
            return
        source = file.read_text("utf-8")
        if edit["all"] == "so far":
            assert block.body == source, f"line {block.line} of the page is not what it came to:\n{source}"
        else:
            file.write_text(edited(source, block.body, place=edit["place"], name=edit["name"]), "utf-8")

    def _type(self, command: Command) -> None:
        if command.text.endswith("&"):
            self._compare(command, 0, self._first.start_job(command.text, lines=len(command.prints)))
        elif LOOKING.match(command.text):
            self._look(command)
        else:
            self._compare(command, *self._first.run(command.text))

    def _serve(self, command: Command) -> None:
        self._second.interrupt()
        self._compare(command, 0, self._second.start(command.text, lines=len(command.prints)))

    def _look(self, command: Command) -> None:
        """Ask until the answer is the one shown."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            exit_code, printed = self._first.run(command.text)
            if self._as_shown(command, printed) or time.monotonic() > deadline:
                break
            time.sleep(PAUSE_SECONDS)
        self._compare(command, exit_code, printed)

    def _compare(self, command: Command, exit_code: int, printed: list[str]) -> None:
        seen = "\n".join([f"line {command.line} of the page: {command.text}", *printed])
        assert self._as_shown(command, printed), f"{seen}\n\nThe page shows:\n" + "\n".join(command.prints)
        # Only a command that is shown to fail may fail.
        assert (exit_code != 0) == any(line.startswith("Error: ") for line in command.prints), seen

    def _as_shown(self, command: Command, printed: list[str]) -> bool:
        shown = [line.replace(f":{PORT} ", f":{self._port} ") for line in command.prints]
        return without_what_varies(printed) == without_what_varies(shown)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    [free] = free_ports(1)
    port = str(free)
    with terminal(tmp_path, port=port) as first, terminal(tmp_path, port=port) as second:
        yield Reader(tmp_path, first, second, port=port)


def test_the_tutorial_works_from_top_to_bottom(reader: Reader):
    for block in blocks_of(PAGE.read_text("utf-8")):
        reader.follow(block)


def test_only_installations_are_left_out():
    blocks = blocks_of(PAGE.read_text("utf-8"))

    assert tuple(block.body for block in blocks if block.language == "sh") == NOT_RUN


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (" processed  trip-7  now", " processed  trip-8  now"),
        ("hotel: now", "hotel: 3s ago"),
        ("4 passed in 0.43s", "3 passed in 0.43s"),
        ("it waits until 2030-01-01T12:00:00Z", "it waits until tomorrow"),
        ("  ────", "  ----"),
    ],
)
def test_only_times_and_widths_may_differ(shown: str, printed: str):
    assert without_what_varies([shown]) != without_what_varies([printed])
