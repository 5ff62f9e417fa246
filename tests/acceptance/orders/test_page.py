"""docs/orders.md is true: its commands print what it shows, and its table is that of the tests."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from tests.support.orders_running import (
    DECLINED,
    GIVEN_UP,
    PENDING,
    PROCESSED,
    REPEATED,
    TO_UNDO,
    UNDO_UNDER_WAY,
    UNDONE,
    Stage,
    environment,
    processing,
)
from tests.support.platform import PATIENCE_SECONDS, Process, eventually

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "orders.md").read_text("utf-8")
WEB_PORT, PROVIDER_PORT = "8080", "8090"

#: Where no system takes the ports of outgoing connections from, which come and go.
PORTS = range(20_000, 30_000)

#: What changes nothing may be asked again: an order takes its time.
LOOKING = re.compile(r"\b(ls|why)\b|curl(?!.*--json)")

# As much of curl as the page uses: not every machine has it, and every one that tests has Python.
CURL = f"""#!{sys.executable}
import argparse, urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("--silent", action="store_true")
parser.add_argument("--json")
parser.add_argument("--header", default="X-None: none")
parser.add_argument("--request")
parser.add_argument("address")
asked = parser.parse_args()
name, _, value = asked.header.partition(": ")
request = urllib.request.Request(
    "http://" + asked.address,
    data=asked.json and asked.json.encode(),
    headers={{"Content-Type": "application/json", name: value}},
    method=asked.request,
)
print(urllib.request.urlopen(request).read().decode())
"""


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command of the page, with the lines that it is said to print something of."""
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = entry.splitlines()
            yield command, [line.strip() for line in shown]


def table() -> list[Stage]:
    """The rows of the page's table. A column is null, or it tells what stands there."""
    rows = re.findall(r"^\| (?:is|got|was) .*\|$", PAGE, re.MULTILINE)
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [
        Stage(state, int(failures), locked=locked_by != "null", due=complete_by != "null")
        for _, locked_by, complete_by, state, failures in cells
    ]


def free_ports(count: int) -> list[str]:
    """Ports at which nobody listens, as text."""
    drawn = Random().sample(PORTS, k=len(PORTS))
    return [str(port) for port in itertools.islice(filter(_is_free, drawn), count)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Shell:
    """A shell in a folder of its own; what is exported stays, what is started is ended with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[Process] = []
        self._web, self._provider = free_ports(2)
        (folder / "curl").write_text(CURL)
        (folder / "curl").chmod(0o755)
        self._environment = environment(
            PATH=os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]]),
            BACKSTAY_PORT=self._web,
            PAYMENT_URL=f"http://127.0.0.1:{self._provider}",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            print(process.log)

    def do(self, command: str, shown: list[str]) -> None:
        """Run a command of the page, and see that it prints what the page shows."""
        command, shown = self._here(command), [self._here(line) for line in shown]
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._environment[name] = value
        elif command.endswith(" &"):
            self._start(command.removesuffix(" &")).until_said(*shown)
        else:
            self._run(command, shown)

    def _here(self, text: str) -> str:
        """What the page says, with the ports of this shell."""
        return text.replace(WEB_PORT, self._web).replace(PROVIDER_PORT, self._provider)

    def _start(self, command: str) -> Process:
        log = self._folder / f"process-{len(self._processes)}.log"
        self._processes.append(Process(shlex.split(command), log, self._environment))
        return self._processes[-1]

    def _run(self, command: str, shown: list[str]) -> None:
        def holds(printed: str) -> bool:
            return all(line in printed for line in shown)

        if LOOKING.search(command):
            eventually(lambda: self._printed(command), holds, what=f"{command} with {shown}")
        else:
            printed = self._printed(command)
            assert holds(printed), f"{command} did not print {shown}, but:\n{printed}"

    def _printed(self, command: str) -> str:
        done = subprocess.run(
            command,
            shell=True,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # On a terminal both are seen.
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path):
    with Shell(tmp_path) as shell:
        for command, shown in commands():
            shell.do(command, shown)

    assert len(list(commands())) == len(re.findall(r"^\$ ", PAGE, re.MULTILINE)) > 0


def test_the_table_of_the_page_has_the_stages_that_the_tests_follow():
    assert table() == [
        PENDING,
        processing(),
        PROCESSED,
        processing(failures=1),
        REPEATED,
        GIVEN_UP,
        DECLINED,
        PENDING,
        TO_UNDO,
        UNDO_UNDER_WAY,
        UNDONE,
    ]
