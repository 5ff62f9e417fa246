"""The commands in docs/operating.md do what the page shows, in its order."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operating.md"
PATIENCE_SECONDS = 20.0
PORT = "8080"

#: What changes nothing may be asked again: a task takes its time, and a server hears of a token in a second.
LOOKING = re.compile(r"\b(ls|why|show)\b|curl(?!.*--json)")

# As much of curl as the page uses: not every machine has it, and every one that tests has Python.
CURL = f"""#!{sys.executable}
import argparse, urllib.error, urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("--silent", action="store_true")
parser.add_argument("--json")
parser.add_argument("--output")
parser.add_argument("--write-out")
parser.add_argument("address")
asked = parser.parse_args()
request = urllib.request.Request(
    "http://" + asked.address,
    data=asked.json and asked.json.encode(),
    headers={{"Content-Type": "application/json"}} if asked.json else {{}},
)
try:
    answer = urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    answer = error
body = answer.read().decode()
print(asked.write_out.replace("%{{http_code}}", str(answer.status)) if asked.write_out else body)
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command of the page, with the lines that it is said to print something of."""
    for block in blocks("console"):
        for entry in block.split("$ ")[1:] if block.startswith("$ ") else []:
            command, *shown = entry.splitlines()
            yield command, shown


def test_every_line_of_the_page_is_a_command_or_what_it_prints():
    assert len(list(commands())) == sum(block.count("$ ") for block in blocks("console"))


class Shell:
    """A shell in a folder of its own; what is exported stays, what is started is ended with it."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._port = str(port)
        bin_folder = str(Path(sys.executable).parent)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")},
            "PATH": os.pathsep.join([str(folder), bin_folder, os.environ["PATH"]]),
            "BACKSTAY_PORT": self._port,
            "BACKSTAY_SUPERVISOR_PERIOD": "100ms",
        }

    def run(self, command: str) -> str:
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._environment[name] = value
            return ""
        done = subprocess.run(
            command.replace(f"localhost:{PORT}", f"localhost:{self._port}"),
            shell=True,
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # On a terminal both are seen.
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    @contextmanager
    def serving(self, command: str, says: list[str]) -> Iterator[None]:
        """Start ``command`` and come back once it has said this."""
        with subprocess.Popen(
            command.split(), cwd=self._folder, env=self._environment, stderr=subprocess.PIPE, text=True
        ) as server:
            try:
                assert server.stderr is not None
                for line in says:
                    assert server.stderr.readline().strip() == line.replace(PORT, self._port)
                yield
            finally:
                server.terminate()
                # To its end: who writes into a pipe that nobody reads any more does not end well.
                server.communicate(timeout=PATIENCE_SECONDS)
        assert server.returncode == 0

    def until_shown(self, command: str, shown: list[str]) -> None:
        """Run ``command`` until it prints everything that the page shows: a task takes its time."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            printed = self.run(command)
            missing = [line for line in shown if line.strip() not in printed]
            if not missing:
                return
            assert time.monotonic() < deadline, f"{command} did not print {missing}, but:\n{printed}"
            time.sleep(0.1)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    [program] = blocks("python")
    (tmp_path / "shop.py").write_text(program)
    (tmp_path / "curl").write_text(CURL)
    (tmp_path / "curl").chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return Shell(tmp_path, free.getsockname()[1])


def test_the_page_works_from_top_to_bottom(shell: Shell):
    (start, says), *rest = commands()
    assert start.endswith(" &")

    with shell.serving(start.removesuffix(" &"), says):
        for command, shown in rest:
            if LOOKING.search(command):
                shell.until_shown(command, shown)
                continue
            printed = shell.run(command)
            assert not [line for line in shown if line.strip() not in printed], f"{command}\n{printed}"
