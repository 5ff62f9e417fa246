"""The drone delivery as it is run: its services and the processes that serve the application, on one store.

Whoever tests it stands where a customer, an operator or the staff of a service would: at HTTP, at the command
line, and at the services' own files.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
from yarl import URL

from drone_delivery.services.books import Books, read_books
from drone_delivery.services.catalogue import SERVICES
from tests.support.drone_services import Services, services_running
from tests.support.drone_stream import SCHEDULER, RequestStream
from tests.support.platform import Process
from tests.support.serving import JSON, Answer

Value = TypeVar("Value")

APPLICATION = "drone_delivery.app:app"
SUPERVISOR = "drone_delivery.supervisor:app"
STORE = "sqlite:///store.db"
API = "api"
EVERYTHING = "api,ingest,scheduler,agents,supervisor"

#: The supervisor looks often, and reports of breakers are fresh, so that nobody waits for them.
SETTINGS = {"supervisor_period": "100ms", "heartbeat": "500ms"}
#: Whoever says nothing for so long is taken for dead.
SHORT_LEASE = {"lease": "3s"}

#: Generous: a machine may be busy. Nobody waits longer than it takes.
PATIENCE_SECONDS = 60.0
_LOOK_EVERY_SECONDS = 0.02
_CONNECTIONS = 200
_READERS = 10
_PAGE = 1_000

_UNFINISHED = ("pending", "processing", "waiting", "undoing")
_STOPPED = ("error", "undone", "undo_failed", "cancelled")
_PATHS = {
    "account": "/api/account/",
    "package": "/api/packages/",
    "third-party": "/api/thirdpartydeliveries/",
    "drone": "/api/dronedeliveries/",
    "delivery": "/api/deliveries/",
    "history": "/api/deliveryhistory/",
}

_ROOT = Path(__file__).parents[2]
_numbers = count()

Request = Mapping[str, Any]


async def eventually(
    look: Callable[[], Awaitable[Value]], holds: Callable[[Value], object], *, what: str
) -> Value:
    """Look until ``holds`` says yes to what was seen; that is what comes back."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        seen = await look()
        if holds(seen):
            return seen
        assert time.monotonic() < deadline, f"{what} did not come true; last seen: {seen!r}"
        await asyncio.sleep(_LOOK_EVERY_SECONDS)


# What customers ask for


def distinct_request(number: int) -> dict[str, Any]:
    """A request whose ids, texts, places and weight are those of no other number."""
    latitude, longitude = -60 + number % 120, -170 + number % 340
    return {
        "ownerId": f"owner-{number}",
        "pickupLocation": f"{number}.25,{latitude}.5,{longitude}.125",
        "dropOffLocation": f"-{number}.75,{latitude}.625,{longitude}.25",
        "pickupTime": f"{number} minutes from now",
        "deadline": f"{number} hours from now",
        "expedited": number % 2 == 0,
        "confirmationRequired": ("FingerPrint", "Picture", "Voice", "None")[number % 4],
        "packageInfo": {
            "packageId": f"package-{number}",
            "size": ("small", "medium", "large")[number % 3],
            "weight": 0.125 + number / 4,
            "tag": f"tag {number}",
        },
    }


def new_request(**changes: Any) -> dict[str, Any]:
    """A request that nobody has handed in yet."""
    return distinct_request(next(_numbers)) | changes


@dataclass(frozen=True, slots=True)
class Order:
    """A request that was accepted."""

    id: str
    request: Request
    location: str


@dataclass(frozen=True, slots=True)
class Call:
    """What a service noted of the calls under one idempotency key."""

    key: str
    operation: str
    id: str
    times: int


class DronePlatform:
    """Made by ``drone_platform``; no process outlives that context."""

    def __init__(self, services: Services, session: aiohttp.ClientSession) -> None:
        self.services = services
        self.processes: list[Process] = []
        self._session = session
        self.stream = RequestStream(
            lambda method, path, *body, **more: self.ask(method, self.url + path, *body, **more)
        )

    # Its processes

    async def serve(
        self, roles: str = EVERYTHING, *, application: str = APPLICATION, port: str = "0", **settings: str
    ) -> Process:
        """One more process with these roles, once it is ready."""
        log = self.services.folder / f"process-{len(self.processes)}.log"
        options = ["--roles", roles, "--store", STORE, "--port", port]
        process = Process(
            [*_COMMAND, "serve", application, *options], log, self._environment({**SETTINGS, **settings})
        )
        self.processes.append(process)
        await asyncio.to_thread(process.until_ready)
        return process

    def _environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
        return {
            **inherited,
            **{f"BACKSTAY_{name.upper()}": value for name, value in settings.items()},
            **self.services.environment,
            "PYTHONPATH": os.pathsep.join([str(_ROOT / "examples"), str(_ROOT / "src")]),
        }

    @property
    def url(self) -> str:
        """Of a process that answers."""
        url = next(process.url for process in self.processes if process.answers)
        assert url is not None
        return url

    def end(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            print(f"--- process {process.pid}\n{process.log}")

    # The customer

    async def ask(
        self, method: str, url: str, body: Any = msgspec.UNSET, *, data: Any = None, **headers: str
    ) -> Answer:
        """``body`` is sent as JSON, ``data`` as it is; ``Idempotency_Key`` stands for a header."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not msgspec.UNSET:
            data, named = msgspec.json.encode(body), {**JSON, **named}
        exactly = URL(url, encoded=True)  # no path is tidied up
        async with self._session.request(method, exactly, data=data, headers=named) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", self.url + path)

    async def post(self, request: Request, **headers: str) -> Answer:
        return await self.ask("POST", f"{self.url}/api/deliveryrequests", request, **headers)

    async def place(self, request: Request) -> Order:
        answer = await self.post(request)
        assert answer.status == 202, answer
        return Order(answer.json["deliveryId"], request, answer.headers["Location"])

    async def place_all(self, requests: Collection[Request]) -> list[Order]:
        """All of them at the same time."""
        return await asyncio.gather(*map(self.place, requests))

    # The operator

    async def task(self, order: Order) -> Any:
        """``None`` while the request waits to be taken up."""
        answer = await self.get(f"/v1/tasks/{order.id}")
        return None if answer.status == HTTPStatus.NOT_FOUND else answer.json

    async def steps(self, order: Order) -> dict[str, Any]:
        """The steps of a delivery by their names; none is called twice."""
        answer = await self.get(f"/v1/tasks/{order.id}/steps")
        items = [] if answer.status == HTTPStatus.NOT_FOUND else answer.json["items"]
        return {step["operation"]: step for step in items}

    async def until(self, order: Order, state: str) -> Any:
        """The delivery's task, once it is in this state; none that has stopped elsewhere is waited for."""
        task = await eventually(
            lambda: self.task(order),
            lambda task: task is not None and task["state"] in {state, *_STOPPED},
            what=f"{order.id} {state}",
        )
        assert task["state"] == state, task
        return task

    async def until_step(self, order: Order, name: str, *, holds: Callable[[Any], object]) -> Any:
        """The step of this name, once it is there and as ``holds`` wants it."""

        async def look() -> Any:
            return (await self.steps(order)).get(name)

        return await eventually(look, lambda step: step is not None and holds(step), what=f"step {name}")

    async def tasks(self, *states: str) -> list[Any]:
        """All of those in ``states``, or in any state."""
        items: list[Any] = []
        query = "".join(f"&state={state}" for state in states)
        cursor = ""
        while True:
            page = (await self.get(f"/v1/tasks?limit={_PAGE}{query}{cursor}")).json
            items += page["items"]
            if page["next"] is None:
                return items
            cursor = f"&cursor={page['next']}"

    async def until_taken_up(self, *groups: str) -> None:
        """Until each of these groups has passed every event."""
        for group in groups:
            await eventually(
                functools.partial(self.stream.lag, group), lambda lag: lag == 0, what=f"{group} at the end"
            )

    async def until_all_have_ended(self) -> dict[str, str]:
        """The states by id, once nothing waits to be taken up and no task moves any more."""
        await self.until_taken_up(SCHEDULER)
        query = "".join(f"&state={state}" for state in _UNFINISHED)

        async def look() -> list[Any]:
            items: list[Any] = (await self.get(f"/v1/tasks?limit=1{query}")).json["items"]
            return items

        await eventually(look, lambda unfinished: not unfinished, what="the end of all tasks")
        return {task["id"]: task["state"] for task in await self.tasks()}

    async def type(self, *arguments: str) -> Any:
        """A command at the server; the JSON that it printed."""
        process = await asyncio.create_subprocess_exec(
            *_COMMAND,
            *arguments,
            *("--url", self.url, "--json"),
            cwd=self.services.folder,
            env=self._environment({}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return json.loads(out)

    async def pause_agent(self, agent: str) -> None:
        """Come back once every process has heard that this agent is not to be called."""
        await self.type("agents", "pause", agent)

        async def look() -> list[Any]:
            items = (await self.get("/v1/agents")).json["items"]
            return [instance for one in items if one["name"] == agent for instance in one["instances"]]

        await eventually(
            look,
            lambda seen: seen and all(each["open_until"] is not None for each in seen),
            what=f"a process that leaves {agent} alone",
        )

    async def breaker(self, agent: str) -> str:
        """How it stands in the one process that there is."""
        [view] = [one for one in (await self.type("agents", "ls"))["items"] if one["name"] == agent]
        [instance] = view["instances"]
        return str(instance["breaker"])

    # The staff of the services

    def at(self, service: str, id: str) -> str:
        """The address of what a service keeps under this id."""
        return f"{self.services.url(service)}{_PATHS[service]}{id}"

    async def suspend(self, owner_id: str) -> None:
        answer = await self.ask("PUT", self.at("account", owner_id), body=False)
        assert answer.status == 201, answer

    @asynccontextmanager
    async def disturbed(self, service: str, **dial: Any) -> AsyncIterator[None]:
        """A service with these faults, and without any afterwards."""
        await self.services.turn(service, **dial)
        try:
            yield
        finally:
            await self.services.turn(service)

    def books(self) -> Books:
        return read_books(self.services.folder)

    def held_for(self, order: Order) -> set[str]:
        """The services that keep something for a delivery that is not cancelled."""
        books = self.books()
        live = {
            "package": any(one.live and one.id == order.id for one in books.packages),
            "third-party": any(one.live and one.id == order.id for one in books.checks),
            "drone": any(one.live and one.delivery_id == order.id for one in books.assignments),
            "delivery": any(one.live and one.id == order.id for one in books.deliveries),
        }
        return {service for service, is_live in live.items() if is_live}

    def calls(self, service: str, id: str | None = None) -> list[Call]:
        """What a service noted of the calls for this id, or of all, in the order in which they first came."""
        path = self.services.folder / f"{service}.db"
        query = "SELECT key, operation, id, times FROM call WHERE ? IN (id, '') ORDER BY rowid"
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            return [Call(*row) for row in connection.execute(query, (id or "",))]

    async def documents(self, order: Order) -> dict[str, Any]:
        """Everything that customer and services are told of a delivery."""
        delivery = f"{self.url}/api/deliveries/{order.id}"
        addresses = {
            "delivery": delivery,
            "owner": f"{delivery}/owner",
            "package": self.at("package", order.id),
            "drone": self.at("drone", order.id),
            "third-party": self.at("third-party", order.id),
        }
        answers = await asyncio.gather(*(self.ask("GET", address) for address in addresses.values()))
        assert {answer.status for answer in answers} == {200}, answers
        return {name: answer.json for name, answer in zip(addresses, answers, strict=True)}

    async def all_documents(self, orders: Iterable[Order]) -> list[dict[str, Any]]:
        """Those of each delivery; no more at a time than a busy machine can answer in time."""
        places = asyncio.Semaphore(_READERS)

        async def read(order: Order) -> dict[str, Any]:
            async with places:
                return await self.documents(order)

        return await asyncio.gather(*map(read, orders))


@asynccontextmanager
async def drone_platform(
    folder: Path, names: Iterable[str] = SERVICES, *, told: str | None = None
) -> AsyncIterator[DronePlatform]:
    """The services called ``names``, with their files in ``folder``; nobody serves the application yet.

    ``told``: the address of a server, there or yet to come, that is told what happens in them.
    """
    timeout = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    async with (
        services_running(folder, names, told=told) as services,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_CONNECTIONS), timeout=timeout) as session,
    ):
        platform = DronePlatform(services, session)
        try:
            yield platform
        finally:
            platform.end()


def connections(process: Process, *, port: int) -> int:
    """How many TCP connections a process has established to a port of this machine. Linux only."""
    before = _open_files(process)
    rows = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    # These lists are no snapshots: one that closes while they are read may be seen beside the one after it.
    # What was there at both ends was there all the time, and so at one time.
    own = before & _open_files(process)
    return sum(
        int(remote.partition(":")[2], 16) == port and state == _ESTABLISHED and f"socket:[{inode}]" in own
        for _, _, remote, state, *_, inode in (row[:10] for row in rows)
    )


def _open_files(process: Process) -> set[str | None]:
    return {_target(file) for file in Path(f"/proc/{process.pid}/fd").iterdir()}


def _target(file: Path) -> str | None:
    try:
        return str(file.readlink())
    except FileNotFoundError:
        return None  # Closed a moment ago.


_ESTABLISHED = "01"
_COMMAND = (sys.executable, "-m", "backstay")
