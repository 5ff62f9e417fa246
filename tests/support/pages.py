"""Pages whose commands are run in their order: what a page shows is what they print."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PATIENCE_SECONDS: Final = 40.0
_LOOK_SECONDS: Final = 0.1
#: What stands around a shown line: the margin, and the mark of a line that is shown in part.
_OPEN_END: Final = " …"
_STOPPED: Final = frozenset({0, -signal.SIGTERM})

#: What changes nothing may be asked again: a task takes its time, and a server hears of a token in a second.
_LOOKING: Final = re.compile(r"\b(ls|why|show|history)\b|curl(?!.*--(json|data))")

# As much of curl as the pages use: not every machine has it, and every one that tests has Python.
_CURL: Final = f"""#!{sys.executable}
import argparse, urllib.error, urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("--silent", action="store_true")
parser.add_argument("--include", action="store_true")
parser.add_argument("--json")
parser.add_argument("--header", action="append", default=[])
parser.add_argument("--data-binary")
parser.add_argument("--request")
parser.add_argument("--output")
parser.add_argument("--write-out")
parser.add_argument("address")
asked = parser.parse_args()
headers = {{"Content-Type": "application/json"}} if asked.json else {{}}
for header in asked.header:
    name, _, value = header.partition(": ")
    headers[name] = value
data = asked.json and asked.json.encode()
if asked.data_binary:
    data = open(asked.data_binary.removeprefix("@"), "rb").read()
request = urllib.request.Request(
    "http://" + asked.address.removeprefix("http://"),
    data=data,
    headers=headers,
    method=asked.request,
)
try:
    answer = urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    answer = error
body = answer.read().decode()
if asked.include:
    print("HTTP/1.1", answer.status, answer.reason)
    print(answer.headers)
print(asked.write_out.replace("%{{http_code}}", str(answer.status)) if asked.write_out else body)
"""


class Page:
    """One of the pages in ``docs``."""

    def __init__(self, name: str) -> None:
        self.text = (DOCS / name).read_text("utf-8")

    def blocks(self, language: str) -> list[str]:
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """Each command, with what it is said to print; ``…`` at an end of a line: the line goes on there."""
        for block in self.blocks("console"):
            assert block.startswith("$ "), f"a block begins with something else than a command:\n{block}"
            for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, *shown = entry.splitlines()
                yield command, [text for line in shown if (text := line.strip(_OPEN_END))]


class Shell:
    """A shell in a folder of its own; what is exported stays, what is started is ended with it."""

    def __init__(self, folder: Path, *, ports: Mapping[str, int], **environment: str) -> None:
        """``ports``: those of the page, and those that stand for them here."""
        self._folder = folder
        self._ports = ports
        self._started: list[tuple[subprocess.Popen[bytes], Path]] = []
        (folder / "curl").write_text(_CURL)
        (folder / "curl").chmod(0o755)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
        path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
        self._environment = {**inherited, "PATH": path, "BACKSTAY_SUPERVISOR_PERIOD": "100ms", **environment}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process, _ in self._started:
            process.terminate()
        codes = [process.wait(PATIENCE_SECONDS) for process, _ in self._started]
        for _, log in self._started:
            print(log.read_text("utf-8"))
        assert error is not None or _STOPPED.issuperset(codes), codes

    def follow(self, page: Page) -> None:
        """Do everything that the page says, in its order."""
        for command, shown in page.commands():
            self.do(command, shown)

    def do(self, command: str, shown: list[str]) -> None:
        """Run a command, and see that it prints what the page shows."""
        command, shown = self._here(command), [self._here(line) for line in shown]
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._environment[name] = value
        elif command.endswith(" &"):
            self._start(command.removesuffix(" &"), shown)
        elif _LOOKING.search(command):
            # What is looked at may not be there yet: then the command fails, and shows nothing of this.
            _until_shown(command, shown, lambda: self.printed(command, may_fail=bool(shown)))
        else:
            # A page that shows an error shows a command that fails.
            printed = self.printed(command, may_fail=any(line.startswith("Error: ") for line in shown))
            assert not _missing(shown, printed), f"{command}\n{printed}"

    def printed(self, command: str, *, may_fail: bool = False) -> str:
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
        assert may_fail or done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def _here(self, text: str) -> str:
        """What the page says, with the ports of this shell."""
        for written, port in self._ports.items():
            text = re.sub(rf"\b{written}\b", str(port), text)
        return text

    def _start(self, command: str, shown: list[str]) -> None:
        log = self._folder / f"process-{len(self._started)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                shlex.split(command),
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._started.append((process, log))
        _until_shown(command, shown, lambda: log.read_text("utf-8"))


def _until_shown(command: str, shown: list[str], look: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while missing := _missing(shown, printed := look()):
        assert time.monotonic() < deadline, f"{command} did not print {missing}, but:\n{printed}"
        time.sleep(_LOOK_SECONDS)


def _missing(shown: list[str], printed: str) -> list[str]:
    return [line for line in shown if line not in printed]
