"""The orders example as it is run: provider, web, schedulers and supervisors, each a process of its own.

Whoever tests it stands where a customer, an operator or the provider's staff would: at HTTP and at the
command line.
"""

from __future__ import annotations

import http.client
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.support.platform import PATIENCE_SECONDS, Process, eventually

APPLICATION = "orders.app:app"
STORE = "sqlite:///orders.db"
API, SCHEDULER, SUPERVISOR = "api", "scheduler,agents", "supervisor"

#: The supervisor looks often, so that nobody waits for it; who was killed is soon known to be dead.
SETTINGS = {"supervisor_period": "100ms", "heartbeat": "500ms", "lease": "3s"}
#: A charge for which this is the complete-by is under way for as long as a test wants it to be.
LONG = "60s"

#: Others may be writing just now, but none of them for long.
_WRITE_SECONDS = 0.5

_ROOT = Path(__file__).parents[2]
_COLUMNS = ("OrderID", "LockedBy", "CompleteBy", "ProcessState", "FailureCount")


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: Any


class Stage(NamedTuple):
    """What the five columns tell, whoever the holder is and whatever the time."""

    state: str
    failures: int = 0
    locked: bool = False
    due: bool = False


PENDING = Stage("Pending")
PROCESSED = Stage("Processed")
REPEATED = Stage("Processed", failures=1)
DECLINED = Stage("Error", failures=1)
GIVEN_UP = Stage("Error", failures=3)
TO_UNDO = Stage("Undoing")
UNDO_UNDER_WAY = Stage("Undoing", locked=True, due=True)
UNDONE = Stage("Undone")


def processing(failures: int = 0) -> Stage:
    return Stage("Processing", failures, locked=True, due=True)


class Orders:
    """From entering to leaving the context; no process outlives it."""

    def __init__(self, folder: Path, *, payment_complete_by: str = "2s", **settings: str) -> None:
        self.folder = folder
        self._payment_complete_by = payment_complete_by
        self._settings = {f"BACKSTAY_{name.upper()}": value for name, value in settings.items()}
        self._processes: list[Process] = []
        self.provider_url = self.web_url = ""

    def __enter__(self) -> Self:
        provider = self._started("-m", "orders.payment", "--port", "0")
        self.provider_url = _address(provider, "payments are taken on")
        self.web_url = _address(self.start(API)[0], "backstay is running on")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
        print(self.said())

    # Its processes

    def start(self, *roles_of_each: str) -> list[Process]:
        """So many processes, each with these roles. They start side by side; on return all are ready."""
        options = ("--store", STORE, "--port", "0")
        started = [
            self._started("-m", "backstay", "serve", APPLICATION, "--roles", roles, *options)
            for roles in roles_of_each
        ]
        for process in started:
            process.until_ready()
        return started

    def _started(self, *arguments: str) -> Process:
        log = self.folder / f"process-{len(self._processes)}.log"
        process = Process([sys.executable, *arguments], log, self._environment())
        self._processes.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        return environment(
            PAYMENT_URL=self.provider_url, PAYMENT_COMPLETE_BY=self._payment_complete_by, **self._settings
        )

    def freeze(self, process: Process) -> None:
        """Stop a process as it stands, but not in the middle of a write, which would keep out all others."""

        def frozen_between_writes() -> bool:
            process.freeze()
            with closing(sqlite3.connect(self.folder / "orders.db", timeout=_WRITE_SECONDS)) as connection:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    process.thaw()
            return process.frozen

        eventually(frozen_between_writes, bool, what="a moment between two writes")

    def said(self) -> str:
        """Everything that any process wrote."""
        return "\n".join(f"--- process {one.pid}\n{one.log}" for one in self._processes)

    # The customer

    def post(self, order: Any, *keys: str) -> Answer:
        return ask(self.web_url, "POST", "/orders", order, keys=keys)

    def place(self, card_token: str) -> str:
        """The id of a new order, whose record is checked to be that of one that nobody has touched."""
        placed = self.post(order_with(card_token))
        assert placed.status == 202, placed
        order_id: str = placed.content["OrderID"]
        assert columns(placed.content) == untouched(order_id)
        assert placed.headers["location"] == f"/orders/{order_id}"
        return order_id

    def record(self, order_id: str) -> Any:
        found = ask(self.web_url, "GET", f"/orders/{order_id}")
        assert found.status == 200, found
        return found.content

    def all(self) -> list[Any]:
        listed: list[Any] = ask(self.web_url, "GET", "/orders").content
        return listed

    def until(self, order_id: str, wanted: Stage) -> Any:
        """The record, once it has come to this stage."""
        return eventually(
            lambda: self.record(order_id), lambda record: stage_of(record) == wanted, what=f"{wanted}"
        )

    def follow(self, order_id: str, end: Stage) -> list[Stage]:
        """The stages that were seen up to ``end``. One that passed between two looks is not among them."""
        seen: list[Stage] = []

        def look() -> Stage:
            stage = stage_of(self.record(order_id))
            if stage not in seen[-1:]:
                seen.append(stage)
            return stage

        eventually(look, lambda stage: stage == end, what=f"{end}")
        return seen

    # The operator

    def type(self, *arguments: str) -> str:
        """A command at the server; what it printed."""
        return self._typed([*arguments, "--url", self.web_url])

    def type_on_store(self, *arguments: str) -> str:
        return self._typed([*arguments, "--store", STORE])

    def tasks(self) -> list[Any]:
        items: list[Any] = ask(self.web_url, "GET", "/v1/tasks").content["items"]
        return items

    def open_alerts(self) -> list[Any]:
        items: list[Any] = json.loads(self.type("alerts", "ls", "--open", "--json"))["items"]
        return items

    def _typed(self, arguments: list[str]) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "backstay", *arguments],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    # The provider's staff

    def payments(self) -> list[Any]:
        listed: list[Any] = ask(self.provider_url, "GET", "/payments").content
        return listed

    def until_asked_for(self, order_id: str, *, calls: int = 1) -> None:
        """Return once the provider was called so often for the payment of this order."""
        eventually(
            self.payments,
            lambda payments: any((one["id"], one["calls"]) == (order_id, calls) for one in payments),
            what=f"call {calls} for {order_id}",
        )

    def repair(self, card_token: str) -> None:
        changed = ask(self.provider_url, "PUT", f"/tokens/{card_token}", {"behaviour": "works"})
        assert changed.status == 200, changed


def environment(**more: str) -> dict[str, str]:
    """That of a process which finds the example, runs fast, and inherits no setting."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    settings = {f"BACKSTAY_{name.upper()}": value for name, value in SETTINGS.items()}
    paths = os.pathsep.join([str(_ROOT / "examples"), str(_ROOT / "src")])
    return {**inherited, **settings, "PYTHONPATH": paths, **more}


def order_with(card_token: str, *, customer: str = "ada", cents: int = 4_200) -> dict[str, Any]:
    return {"customer": customer, "cents": cents, "cardToken": card_token}


def ask(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    content_type: str = "application/json",
    keys: Iterable[str] = (),
) -> Answer:
    """``body`` is sent as JSON, or bytes as they are; each of ``keys`` in an Idempotency-Key of its own."""
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    headers = [("Content-Type", content_type), ("Content-Length", str(len(data)))]
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_SECONDS)) as line:
        line.putrequest(method, path)
        for name, value in [*headers, *(("Idempotency-Key", key) for key in keys)]:
            line.putheader(name, value)
        line.endheaders(data)
        response = line.getresponse()
        content = response.read()
        told = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, told, json.loads(content) if content else None)


def columns(record: Mapping[str, Any]) -> dict[str, Any]:
    """The five columns of the pattern."""
    return {name: record[name] for name in _COLUMNS}


def untouched(order_id: str) -> dict[str, Any]:
    """The five columns of an order that nobody has taken up yet."""
    return {
        "OrderID": order_id,
        "LockedBy": None,
        "CompleteBy": None,
        "ProcessState": "Pending",
        "FailureCount": 0,
    }


def stage_of(record: Mapping[str, Any]) -> Stage:
    return Stage(
        record["ProcessState"],
        record["FailureCount"],
        locked=record["LockedBy"] is not None,
        due=record["CompleteBy"] is not None,
    )


def is_part_of(seen: Iterable[Stage], course: Iterable[Stage]) -> bool:
    """Whether the stages in ``seen`` are among those of ``course``, in the same order."""
    left = iter(course)
    return all(stage in left for stage in seen)


def _address(process: Process, words: str) -> str:
    [line] = process.until_said(words)
    return line.partition(f"{words} ")[2].split()[0].rstrip(";")
