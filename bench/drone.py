"""Deliveries by drone at scale: what comes in and is completed, what waits, how long it takes, what is lost.

With back ends in the same process, each of which takes 50 ms, all else is measured: HTTP, stream, pipeline,
scheduler, agents. With the services of the example it is the example as it is, with a process for each. And
both while a process, whichever it is, gets SIGKILL every ten seconds and is started again. Afterwards each
request that was accepted is looked for: on the stream, in the store, and in the books of the services.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec

from backstay import App
from backstay.domain.states import TaskState
from backstay.settings import PREFIX
from bench.databases import FOLDER, Database
from bench.load import in_fresh_loop
from bench.openloop.outcome import Outcome
from bench.openloop.plan import MARK, Load, Phase, request_text
from bench.openloop.process import ROOT, generate_apart
from bench.options import Options
from bench.plots import draw
from bench.progress import say
from bench.streaming.course import Bucket, Course, course_of, part_of, whole_of
from bench.streaming.deliveries import deliveries
from bench.streaming.following import Arrivals, came, done, until_done
from drone_delivery.addresses import DEFAULT_PORTS
from drone_delivery.demo.kills import kill_now_and_then
from drone_delivery.demo.plan import Plan
from drone_delivery.demo.processes import DemoProcesses, Processes, Recipe
from drone_delivery.demo.reconcile import Report, reconcile
from drone_delivery.services.books import read_books
from drone_delivery.wishes import SCHEDULER, requests
from drone_delivery.workflow import app as drone_delivery
from tests.support.ports import HOST, free_ports

IN_PROCESS: Final = "in process"
SERVICES: Final = "HTTP services"

KILL_EVERY_SECONDS: Final = 10.0
SECONDS: Final = 60.0
BUCKET_SECONDS: Final = 5.0
CONNECTIONS: Final = 256

SHORT_KILL_EVERY_SECONDS: Final = 0.8
SHORT_SECONDS: Final = 1.5
SHORT_BUCKET_SECONDS: Final = 0.5
SHORT_CONNECTIONS: Final = 8

_REQUEST_SECONDS: Final = 5.0
_TARGET: Final = "bench.streaming.deliveries:deliveries"
#: The roles of the process that listens, and of another beside it.
_ROLES: Final = {
    1: {"server": "api,ingest,scheduler,agents,supervisor"},
    2: {"server": "api,ingest", "worker": "ingest,scheduler,agents,supervisor"},
}


class Run(NamedTuple):
    back_ends: str
    rate: int
    kills: bool = False
    #: With back ends in the same process: how many there are of it.
    processes: int = 1


RUNS: Final = (
    Run(IN_PROCESS, 1_000),
    Run(IN_PROCESS, 2_000),
    Run(IN_PROCESS, 5_000),
    Run(IN_PROCESS, 2_000, processes=2),
    Run(IN_PROCESS, 1_000, kills=True, processes=2),
    Run(SERVICES, 50),
    Run(SERVICES, 100),
    Run(SERVICES, 200),
    Run(SERVICES, 50, kills=True),
)
SHORT_RUNS: Final = (Run(IN_PROCESS, 40), Run(SERVICES, 20, kills=True))


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a part of the time, and last of all in the whole.

    The backlog is what had come in and was not done at the end of that part; latencies are those of what was
    done in it, from the arrival of the request on the stream to the end of its task. In the whole the backlog
    is the greatest, and the drain is the time from the last request to the end of the last task.
    ``accept_p99_ms``: of the requests, from the instant at which each was due. ``failed``: what was set
    aside, or ended in any other way than made; ``lost``: what was accepted, and is nowhere.
    """

    store: str
    back_ends: str
    processes: int
    kills: bool
    rate: int
    seconds: str
    incoming_per_second: float
    completed_per_second: float
    backlog: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    accept_p99_ms: float | None = None
    not_accepted: int | None = None
    failed: int | None = None
    lost: int | None = None
    orphaned: int | None = None
    duplicates: int | None = None
    drain_seconds: float | None = None


class _PackageInfo(msgspec.Struct, rename="camel"):
    package_id: str


class _Request(msgspec.Struct, rename="camel"):
    delivery_id: str
    package_info: _PackageInfo


class _Wish(msgspec.Struct):
    request: _Request


_decode: Final = msgspec.json.Decoder(_Wish).decode


class Measured(NamedTuple):
    outcome: Outcome
    course: Course
    lost: int
    report: Report | None


class Place(NamedTuple):
    """Where a run takes place."""

    processes: Processes
    app: App
    store: str
    streams: str
    port: int


def measure(database: Database, options: Options) -> Iterator[Flow]:
    for run in SHORT_RUNS if options.short else RUNS:
        say(f"    {_title(run)}")
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            place = _place(run, database.new_store(), Path(folder).resolve())
            measured = in_fresh_loop(_measured(run, place, short=options.short))
        yield from (_part(database.name, run, bucket) for bucket in measured.course.buckets)
        yield _whole(database.name, run, measured)
        if options.plots:
            draw(measured.course, options.plots / _picture(database.name, run), title=_title(run))


def _title(run: Run) -> str:
    back_ends = "back ends of 50 ms" if run.back_ends == IN_PROCESS else "the services"
    kills = ", a process killed every 10 s" if run.kills else ""
    several = f", {run.processes} processes" if run.processes > 1 else ""
    return f"{run.rate:,} deliveries/s, {back_ends}{several}{kills}"


def _picture(store: str, run: Run) -> str:
    back_ends = run.back_ends.lower().replace(" ", "-")
    return f"drone-{store}-{back_ends}-{run.rate}-{run.processes}{'-kills' if run.kills else ''}.png"


# The processes


def _place(run: Run, store: str, folder: Path) -> Place:
    if run.back_ends == SERVICES:
        ports = free_ports(1 + len(DEFAULT_PORTS))
        plan = Plan(rate=0, seconds=None, kill_every_seconds=None, port=ports[0], store=store, folder=folder)
        return Place(DemoProcesses(ports, plan=plan), drone_delivery, store, plan.streams, ports[0])
    [port] = free_ports(1)
    streams = f"sqlite:///{folder / 'streams.db'}"
    environment = {
        "PYTHONPATH": str(ROOT),
        f"{PREFIX}STORE": store,
        f"{PREFIX}STREAMS": streams,
    }
    processes = Processes(_recipes(run.processes, port), environment=environment, folder=folder)
    return Place(processes, deliveries, store, streams, port)


def _recipes(number: int, port: int) -> Iterator[Recipe]:
    for name, roles in _ROLES[number].items():
        listens = "api" in roles.split(",")
        options = ["--roles", roles, *(["--host", HOST, "--port", str(port)] if listens else [])]
        health = f"http://{HOST}:{port}/readyz" if listens else None
        yield Recipe(name=name, command=["backstay", "serve", _TARGET, *options], health=health)


# A run


async def _measured(run: Run, place: Place, *, short: bool) -> Measured:
    timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        with place.processes:
            await place.processes.start(session)
            outcome = await _loaded(run, place, session, short=short)
            say("    until all is done")
            return await _judged(run, place, outcome, SHORT_BUCKET_SECONDS if short else BUCKET_SECONDS)


async def _loaded(run: Run, place: Place, session: aiohttp.ClientSession, *, short: bool) -> Outcome:
    """What became of the requests; meanwhile processes are killed, if that is asked for."""
    killing = asyncio.create_task(_kill(run, place, session, short=short))
    try:
        return await asyncio.to_thread(generate_apart, _load(run, place.port, short=short))
    finally:
        killing.cancel()
        with suppress(asyncio.CancelledError):
            await killing


async def _kill(run: Run, place: Place, session: aiohttp.ClientSession, *, short: bool) -> None:
    if run.kills:
        every_seconds = SHORT_KILL_EVERY_SECONDS if short else KILL_EVERY_SECONDS
        await kill_now_and_then(
            place.processes,
            session,
            every_seconds=every_seconds,
            chance=Random(),
            tell=lambda line: say(f"    {line}"),
        )


def _load(run: Run, port: int, *, short: bool) -> Load:
    return Load(
        host=HOST,
        port=port,
        request=_request(run, f"{HOST}:{port}"),
        phases=[Phase("all", SHORT_SECONDS if short else SECONDS, rate=run.rate)],
        connections=SHORT_CONNECTIONS if short else CONNECTIONS,
    )


def _request(run: Run, host: str) -> str:
    """As a customer sends it to the application; or, without that, the event that it would append."""
    body = _delivery_request()
    if run.back_ends == SERVICES:
        headers = {"Idempotency-Key": MARK}
        return request_text("/api/deliveryrequests", json.dumps(body), host=host, headers=headers)
    delivery_id = f"delivery-{MARK}"
    event = {"operation": "deliver", "request": {**body, "deliveryId": delivery_id}}
    headers = {"Backstay-Key": delivery_id, "Backstay-Id": delivery_id}
    return request_text(f"/v1/streams/{requests.name}/events", json.dumps(event), host=host, headers=headers)


def _delivery_request() -> dict[str, Any]:
    return {
        "ownerId": f"customer-{MARK}",
        "pickupLocation": "20,47.6,-122.3",
        "dropOffLocation": "20,47.7,-122.2",
        "pickupTime": "2030-01-31T12:00:00Z",
        "deadline": "2030-01-31T14:00:00Z",
        "expedited": True,
        "confirmationRequired": "Picture",
        "packageInfo": {"packageId": f"package-{MARK}", "size": "small", "weight": 1.5, "tag": "glass"},
    }


def _read(body: bytes) -> tuple[int, str]:
    request = _decode(body).request
    return int(request.package_info.package_id.removeprefix("package-")), request.delivery_id


# What became of it


async def _judged(run: Run, place: Place, outcome: Outcome, width: float) -> Measured:
    async with place.app.client(store=place.store, streams=place.streams) as client:
        await until_done(client, requests.name, SCHEDULER)
        arrivals = await came(place.streams, requests.name, _read)
        ends = await done(client, arrivals.numbers)
    return Measured(
        outcome=outcome,
        course=course_of(arrivals.at, ends, width=width),
        lost=len(outcome.acknowledged - arrivals.at.keys()),
        report=_report(arrivals, {*ends}, place.processes.folder) if run.back_ends == SERVICES else None,
    )


def _report(arrivals: Arrivals, ended: set[int], folder: Path) -> Report:
    """By the books of the services."""
    processed = {one: TaskState.PROCESSED for one, number in arrivals.numbers.items() if number in ended}
    return reconcile(arrivals.numbers, processed, read_books(folder))


def _part(store: str, run: Run, bucket: Bucket) -> Flow:
    return Flow(**_what(store, run), **part_of(bucket))


def _whole(store: str, run: Run, measured: Measured) -> Flow:
    course, report = measured.course, measured.report
    [phase] = measured.outcome.phases
    return Flow(
        **_what(store, run),
        **whole_of(course, phase),
        failed=course.came - course.done if report is None else report.accepted - report.processed,
        lost=measured.lost,
        orphaned=None if report is None else report.orphaned,
        duplicates=None if report is None else report.duplicates,
    )


def _what(store: str, run: Run) -> dict[str, Any]:
    return {"store": store, **run._asdict()}
