"""The orders example as it is run: provider, web application, and those who fulfil orders, in processes.

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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.support.platform import PATIENCE_SECONDS, Process, eventually

WEB, APPLICATION = "orders.web:app", "orders.app:app"
STORE = "sqlite:///orders.db"
INGEST, SCHEDULER, AGENTS = "ingest", "scheduler", "agents"
#: The supervisor, and where the staff looks; the same with the submission process.
DESK, OFFICE = "supervisor,api", "ingest,supervisor,api"

#: The supervisor looks often, so that nobody waits for it; who was killed is soon known to be dead.
SETTINGS = {"supervisor_period": "100ms", "heartbeat": "500ms", "lease": "3s"}
#: A charge for which this is the complete-by is under way for as long as a test wants it to be.
LONG = "60s"

#: A queue with nothing in it.
EMPTY: dict[str, Any] = {"ready": 0, "scheduled": 0, "locked": 0, "dead": []}

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
WAITING = Stage("Waiting")
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

    def __init__(
        self, folder: Path, *, store: str = STORE, payment_complete_by: str = "2s", **settings: str
    ) -> None:
        self.folder = folder
        self._store = store
        self._payment_complete_by = payment_complete_by
        self._settings = {f"BACKSTAY_{name.upper()}": value for name, value in settings.items()}
        self._processes: list[Process] = []
        self.provider_url = self.web_url = self.desk_url = ""

    def __enter__(self) -> Self:
        provider = self._started("-m", "orders.payment", "--port", "0")
        self.provider_url = _address(provider, "payments are taken on")
        self.start_web()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
        print(self.said())

    # Its processes

    def start(self, *roles_of_each: str) -> list[Process]:
        """So many of those who fulfil orders, each with these roles. On return all are ready."""
        started = [self._served(APPLICATION, roles) for roles in roles_of_each]
        for process in started:
            process.until_ready()
            self.desk_url = process.url or self.desk_url
        return started

    def start_web(self) -> None:
        self.web = self._served(WEB, "api,ingest")
        self.web.until_ready()
        assert self.web.url is not None
        self.web_url = self.web.url

    def _served(self, application: str, roles: str) -> Process:
        options = ("--roles", roles, "--store", self._store, "--port", "0")
        return self._started("-m", "backstay", "serve", application, *options)

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
            try:
                with self.writing(timeout=_WRITE_SECONDS):
                    pass
            except sqlite3.OperationalError:
                process.thaw()
            return process.frozen

        eventually(frozen_between_writes, bool, what="a moment between two writes")

    @contextmanager
    def writing(self, file: str = "orders.db", *, timeout: float = PATIENCE_SECONDS) -> Iterator[None]:
        """While the context is open nobody else writes to the file."""
        with closing(sqlite3.connect(self.folder / file, timeout=timeout)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield

    def rows(self, query: str) -> list[Any]:
        """What stands in the store's file."""
        with closing(sqlite3.connect(self.folder / "orders.db", timeout=PATIENCE_SECONDS)) as connection:
            return connection.execute(query).fetchall()

    def said(self) -> str:
        """Everything that any process wrote."""
        return "\n".join(f"--- process {one.pid}\n{one.log}" for one in self._processes)

    # The customer

    def post(self, order: Any, *keys: str) -> Answer:
        return ask(self.web_url, "POST", "/orders", order, keys=keys)

    def place(self, card_token: str) -> str:
        """The id of a new order."""
        placed = self.post(order_with(card_token))
        assert placed.status == 202, placed
        order_id: str = placed.content["id"]
        assert placed.headers["location"] == f"/orders/{order_id}"
        return order_id

    def standing(self, order_id: str) -> Any:
        found = ask(self.web_url, "GET", f"/orders/{order_id}")
        assert found.status == 200, found
        return found.content

    def all(self) -> list[Any]:
        listed: list[Any] = ask(self.web_url, "GET", "/orders").content
        return listed

    def until_told(self, order_id: str, *statuses: str) -> Any:
        """How the order stands, once the customer has seen these statuses; nothing else on the way there."""

        def look() -> Any:
            standing = self.standing(order_id)
            assert tuple(history(standing)) == statuses[: len(standing["history"])], standing
            return standing

        return eventually(look, lambda found: len(found["history"]) == len(statuses), what=f"{statuses}")

    # The staff

    def record(self, order_id: str) -> Any:
        """None for an order that nobody has accepted yet."""
        found = ask(self.desk_url, "GET", f"/records/{order_id}")
        assert found.status in (200, 404), found
        return found.content if found.status == 200 else None

    def until(self, order_id: str, wanted: Stage) -> Any:
        """The record, once it has come to this stage."""
        return eventually(
            lambda: self.record(order_id),
            lambda record: record is not None and stage_of(record) == wanted,
            what=f"{wanted}",
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
        return self._typed([*arguments, "--url", self.desk_url or self.web_url])

    def send(self, order: Any, **more: Any) -> str:
        """The id of a message to the queue of orders, from somebody else than the web application."""
        sent = ask(self.web_url, "POST", "/v1/queues/orders/messages", {"body": order, **more})
        assert sent.status == 201, sent
        message_id: str = sent.content["id"]
        return message_id

    def queue(self, name: str) -> Any:
        """How many messages are in a queue, and which were set aside."""
        found = ask(self.web_url, "GET", f"/v1/queues/{name}").content
        dead = ask(self.web_url, "GET", f"/v1/queues/{name}/dead").content["items"]
        return {**{state: found[state] for state in ("ready", "scheduled", "locked")}, "dead": dead}

    def until_set_aside(self, message_id: str) -> Any:
        return eventually(
            lambda: [one for one in self.queue("orders")["dead"] if one["id"] == message_id],
            bool,
            what=f"{message_id} set aside",
        )[0]

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


def history(standing: Mapping[str, Any]) -> list[str]:
    return [one["status"] for one in standing["history"]]


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
