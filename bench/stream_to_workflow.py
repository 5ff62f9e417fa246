"""Events over HTTP into a stream, and from there into workflows of five steps that wait 50 ms each.

One process does all of it: the HTTP interface, the pipeline, the scheduler, the agents. Or one takes events
in and reads them, and another does the work. What came in when, and what was done when, is read from the
stream and from the store afterwards, to the last event.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bench.databases import FOLDER, Database
from bench.load import in_fresh_loop
from bench.openloop.outcome import Outcome
from bench.openloop.plan import Load, Phase
from bench.openloop.process import generate_apart
from bench.options import Options
from bench.plots import draw
from bench.progress import say
from bench.streaming.apps import GROUP, STREAM, workflows
from bench.streaming.course import Bucket, Course, course_of, part_of, whole_of
from bench.streaming.events import Numbered, one_event
from bench.streaming.following import came, done, until_done
from bench.streaming.servers import FAST, Server, beside, serving

#: The roles of the process that listens, and of another beside it.
PROCESSES: Final = {
    1: ("api,ingest,scheduler,agents,supervisor", None),
    2: ("api,ingest", "scheduler,agents,supervisor"),
}
RATES: Final = (1_000, 2_000, 5_000)
SECONDS: Final = 60.0
BUCKET_SECONDS: Final = 5.0
CONNECTIONS: Final = 256

SHORT_RATES: Final = (50,)
SHORT_SECONDS: Final = 1.0
SHORT_BUCKET_SECONDS: Final = 0.5
SHORT_CONNECTIONS: Final = 8

_decode: Final = msgspec.json.Decoder(Numbered).decode


class Run(NamedTuple):
    store: str
    processes: int
    rate: int


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a part of the time, and last of all in the whole.

    The backlog is what had come in and was not done at the end of that part; latencies are those of what was
    done in it, from the event's arrival to the end of its task. In the whole the backlog is the greatest, and
    the drain is the time from the last event to the end of the last task. ``accept_p99_ms``: of the requests,
    from the instant at which each was due.
    """

    store: str
    processes: int
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
    not_completed: int | None = None
    drain_seconds: float | None = None


def measure(database: Database, options: Options) -> Iterator[Flow]:
    for processes in PROCESSES:
        for rate in SHORT_RATES if options.short else RATES:
            say(f"    {rate:,}/s, {processes} process{'es' * (processes > 1)}")
            yield from _rows(Run(database.name, processes, rate), database.new_store(), options)


def _rows(run: Run, store: str, options: Options) -> Iterator[Flow]:
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        outcome, course = _measured(run, store, Path(folder), short=options.short)
    yield from (_part(run, bucket) for bucket in course.buckets)
    yield _whole(run, outcome, course)
    if options.plots:
        name = f"stream-to-workflow-{run.store}-{run.rate}-{run.processes}.png"
        draw(course, options.plots / name, title=_title(run))


def _title(run: Run) -> str:
    processes = "one process" if run.processes == 1 else f"{run.processes} processes"
    return f"{run.rate:,} events/s into five steps of 50 ms each, {processes}"


def _measured(run: Run, store: str, folder: Path, *, short: bool) -> tuple[Outcome, Course]:
    listening, others = PROCESSES[run.processes]
    with ExitStack() as stack:
        server = stack.enter_context(serving(folder, FAST, app="workflows", roles=listening, store=store))
        if others is not None:
            stack.enter_context(beside(server, folder, app="workflows", roles=others))
        outcome = generate_apart(_load(server, run.rate, short=short))
        say("    until all is done")
        return outcome, in_fresh_loop(
            _course(server, outcome, SHORT_BUCKET_SECONDS if short else BUCKET_SECONDS)
        )


def _load(server: Server, rate: int, *, short: bool) -> Load:
    return Load(
        host=server.host,
        port=server.port,
        request=one_event(server.address, ids=True),
        phases=[Phase("all", SHORT_SECONDS if short else SECONDS, rate=rate)],
        connections=SHORT_CONNECTIONS if short else CONNECTIONS,
    )


async def _course(server: Server, outcome: Outcome, width: float) -> Course:
    async with workflows.client(store=server.store, streams=server.streams) as client:
        await until_done(client, STREAM, GROUP)
        arrivals = await came(server.streams, STREAM, _read)
        ends = await done(client, arrivals.numbers)
    if missing := outcome.acknowledged - arrivals.at.keys():
        raise RuntimeError(f"{len(missing):,} events were acknowledged and are not in the stream")
    return course_of(arrivals.at, ends, width=width)


def _read(body: bytes) -> tuple[int, str]:
    number = _decode(body).n
    return int(number), f"order-{number}"


def _part(run: Run, bucket: Bucket) -> Flow:
    return Flow(store=run.store, processes=run.processes, rate=run.rate, **part_of(bucket))


def _whole(run: Run, outcome: Outcome, course: Course) -> Flow:
    [phase] = outcome.phases
    return Flow(
        store=run.store,
        processes=run.processes,
        rate=run.rate,
        not_completed=course.came - course.done,
        **whole_of(course, phase),
    )
