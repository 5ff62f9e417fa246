"""A whole platform of real processes on one store, and somebody in front of it.

Each process is a ``backstay serve`` of its own. They are driven over HTTP and by the command line, as a
person or a program would; the signals that a machine may send (kill, stop, continue) come from here.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.support.databases import Database, PostgresDatabase, SqliteDatabase
from tests.support.delivery_app import FOLDER_VARIABLE, Services

Value = TypeVar("Value")

APPLICATION = "tests.support.delivery_app:app"
EVERYTHING = "api,scheduler,agents,supervisor"
WORKER = "api,scheduler,agents"

#: The supervisor looks often, so that nobody waits for it.
SETTINGS = {"supervisor_period": "100ms"}
#: Whoever says nothing for a second is taken for dead.
SHORT_LEASE = {"lease": "1s", "heartbeat": "250ms"}

#: Generous: a machine may be slow. Nobody waits longer than it takes.
PATIENCE_SECONDS = 30.0
_LOOK_EVERY_SECONDS = 0.01

_ROOT = Path(__file__).parents[2]
_OPEN_TRANSACTION_SECONDS = 0.5


def eventually(
    look: Callable[[], Value],
    holds: Callable[[Value], object],
    *,
    what: str,
    seconds: float = PATIENCE_SECONDS,
) -> Value:
    """Look until ``holds`` says yes to what was seen; that is what comes back."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if holds(seen):
            return seen
        assert time.monotonic() < deadline, f"{what} did not come true; last seen: {seen!r}"
        time.sleep(_LOOK_EVERY_SECONDS)


class Process:
    """One ``backstay serve``. What it says goes into a file, which is there after its end."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str]) -> None:
        self._log = log
        self.frozen = False
        self.url: str | None = None
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command,
                cwd=log.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def answers(self) -> bool:
        """Whether there is somebody to ask over HTTP."""
        return self.url is not None and self.running and not self.frozen

    def until_ready(self) -> None:
        [line] = self.until_said("backstay is running")
        _, _, address = line.partition(" on ")
        self.url = address.partition(" ")[0] or None

    # What it says

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8")

    def said(self, words: str) -> list[str]:
        """The lines in which it said this."""
        return [line for line in self.log.splitlines(keepends=True) if words in line and line.endswith("\n")]

    def until_said(self, *either: str) -> list[str]:
        """The lines in which it said this, or this, once there is one."""

        def look() -> list[str]:
            found = [line for words in either for line in self.said(words)]
            assert found or self.running, f"process {self.pid} has ended"
            return found

        return eventually(look, bool, what=f"{self.pid} saying {' or '.join(either)}")

    # What happens to it

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        """Ask it to stop; ``exit_code`` waits until it has."""
        self._process.terminate()

    def exit_code(self) -> int:
        return self._process.wait(PATIENCE_SECONDS)

    def freeze(self) -> None:
        self.frozen = True
        self._process.send_signal(signal.SIGSTOP)
        # The signal is sent when this returns, and obeyed soon after.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self.frozen = False


class Platform:
    """From entering to leaving the context; no process outlives it."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._token: str | None = None
        self.services = Services(folder)
        self.processes: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            process.kill()  # One that is frozen, too.
        for process in self.processes:
            print(f"--- process {process.pid}\n{process.log}")

    # Its processes

    @property
    def soon_found_dead(self) -> dict[str, str]:
        """Settings with which a killed process is soon known to be dead."""
        return {"heartbeat": "250ms", **self._database.heir()}

    def serve(self, *roles_of_each: str, **settings: str) -> list[Process]:
        """So many processes, each with these roles. They start side by side; on return all are ready."""
        started = [self._started(roles, settings) for roles in roles_of_each]
        for process in started:
            process.until_ready()
        return started

    def _started(self, roles: str, settings: Mapping[str, str]) -> Process:
        log = self._folder / f"process-{len(self.processes)}.log"
        options = ["--store", self._database.url, "--roles", roles, "--port", "0"]
        process = Process(
            [*_COMMAND, "serve", APPLICATION, *options], log, self._environment({**SETTINGS, **settings})
        )
        self.processes.append(process)
        return process

    def _environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
        return {
            **inherited,
            **{f"BACKSTAY_{name.upper()}": value for name, value in settings.items()},
            **({} if self._token is None else {"BACKSTAY_TOKEN": self._token}),
            FOLDER_VARIABLE: str(self._folder),
            "PYTHONPATH": str(_ROOT),
        }

    def process_of(self, instance: str | None) -> Process:
        """The process behind an instance, by whatever record names it."""
        assert instance is not None, "nobody is named"
        number = int(instance.rsplit("-", 2)[1])
        return next(process for process in self.processes if process.pid == number)

    def other_than(self, one: Process) -> Process:
        """The only other process that runs."""
        [other] = [process for process in self.processes if process is not one and process.running]
        return other

    def freeze(self, process: Process) -> None:
        """Stop a process as it stands, but not in the middle of a write.

        There it would keep the store from everybody for as long as it stands still: a database's
        limitation, and not what a test that freezes a process is about.
        """

        def freeze() -> bool:
            process.freeze()
            if not self._in_transaction():
                return True
            process.thaw()
            return False

        eventually(freeze, bool, what="a moment between two writes")

    def _in_transaction(self) -> bool:
        if isinstance(self._database, PostgresDatabase):
            return self._keeps_postgres()
        assert isinstance(self._database, SqliteDatabase)
        # Others may be writing just now, but none of them for long.
        with closing(sqlite3.connect(self._database.path, timeout=_OPEN_TRANSACTION_SECONDS)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            connection.execute("ROLLBACK")
        return False

    def _keeps_postgres(self) -> bool:
        """Whether a transaction stays open. Those of all processes but the frozen one soon end."""
        look = (
            "SELECT pid, xact_start FROM pg_stat_activity WHERE xact_start IS NOT NULL"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        deadline = time.monotonic() + _OPEN_TRANSACTION_SECONDS
        still_open = self._database.rows(look)
        while still_open and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_SECONDS)
            now = self._database.rows(look)
            still_open = [transaction for transaction in still_open if transaction in now]
        return bool(still_open)

    @contextmanager
    def kept_from_everybody(self) -> Iterator[None]:
        """While the context is open, no process can write to the store."""
        if isinstance(self._database, PostgresDatabase):
            with self._database.look.transaction():
                self._database.rows("SELECT 1")  # sets the schema
                self._database.look.execute("LOCK TABLE leader, instance, task IN ACCESS EXCLUSIVE MODE")
                yield
            return
        assert isinstance(self._database, SqliteDatabase)
        with closing(sqlite3.connect(self._database.path, timeout=PATIENCE_SECONDS)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")

    # Over HTTP

    def log_in(self, name: str, role: str) -> None:
        """From now on everybody needs a token, and whatever is done here is done under this name."""
        self._token = self.post("/v1/tokens", {"name": name, "role": role})["token"]

    def get(self, path: str) -> Any:
        return self._answered("GET", path, None)

    def post(self, path: str, body: Any) -> Any:
        return self._answered("POST", path, body)

    def status(self, process: Process, path: str) -> int:
        """What one process answers to a GET."""
        assert process.url is not None
        return self._exchange(process.url, "GET", path, None)[0]

    def _answered(self, method: str, path: str, body: Any) -> Any:
        url = next(process.url for process in self.processes if process.answers)
        assert url is not None
        status, answer = self._exchange(url, method, path, body)
        assert status < HTTPStatus.MULTIPLE_CHOICES, answer
        return answer

    def _exchange(self, url: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        headers = {} if body is None else {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        host = url.removeprefix("http://")
        with closing(http.client.HTTPConnection(host, timeout=PATIENCE_SECONDS)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    # Tasks over HTTP

    def submit(self, workflow: str, id: str, **more: Any) -> Any:
        return self.post("/v1/tasks", {"workflow": workflow, "input": id, "id": id, **more})

    def task(self, task_id: str) -> Any:
        return self.get(f"/v1/tasks/{task_id}")

    def steps(self, task_id: str) -> dict[str, Any]:
        """The steps of a task by their keys, in the order in which they began."""
        return {step["key"]: step for step in self.get(f"/v1/tasks/{task_id}/steps")["items"]}

    def until(self, task_id: str, *states: str) -> Any:
        """The task, once it is in one of ``states``."""
        return eventually(
            lambda: self.task(task_id),
            lambda task: task["state"] in states,
            what=f"{task_id} {' or '.join(states)}",
        )

    def until_asked(self, operation: str, task_id: str | None = None, *, attempt: int = 1) -> None:
        """Return once a service was asked for this, the second time if that is the ``attempt``."""
        eventually(
            lambda: self.services.asked(operation, task_id),
            lambda asked: any(entry.attempt == attempt for entry in asked),
            what=f"attempt {attempt} of {operation}",
        )

    def holder_of(self, task_id: str) -> Process:
        return self.process_of(self.task(task_id)["locked_by"])

    def alerts(self, *, open_only: bool = False) -> list[Any]:
        """Newest first."""
        items: list[Any] = self.get(f"/v1/alerts?open={str(open_only).lower()}")["items"]
        return items

    def audit(self, task_id: str) -> list[Any]:
        """What was done to a task, newest first."""
        items: list[Any] = self.get(f"/v1/audit?target=task:{task_id}")["items"]
        return items

    # The supervisor over HTTP

    def supervisor(self) -> Any:
        return self.get("/v1/supervisor")

    def until_led(self, by: Callable[[Process], object] = bool) -> Process:
        """The process that leads the supervisors, once one of those does that are meant."""
        leader = eventually(
            lambda: self.supervisor()["leader"],
            lambda leader: leader is not None and by(self.process_of(leader)),
            what="a new leader",
        )
        return self.process_of(leader)

    # By the command line

    def type(self, *arguments: str) -> str:
        """A command at whatever server answers; what it printed."""
        url = next(process.url for process in self.processes if process.answers)
        assert url is not None
        return self._typed([*arguments, "--url", url], {})

    def type_on_store(self, *arguments: str, **settings: str) -> str:
        """A command that works on the store itself."""
        return self._typed([*arguments, "--store", self._database.url], settings)

    def _typed(self, arguments: list[str], settings: Mapping[str, str]) -> str:
        done = subprocess.run(
            [*_COMMAND, *arguments],
            cwd=self._folder,
            env=self._environment({**SETTINGS, **settings}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


_COMMAND = (sys.executable, "-m", "backstay")
