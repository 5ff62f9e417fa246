"""The benches by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench import (
    append,
    back_ends,
    beside_peers,
    branches,
    claim,
    console,
    drone,
    five_steps,
    growth,
    idle_supervisor,
    ingest,
    jobs,
    memory,
    ndjson,
    next_after,
    pipelines,
    queue_peers,
    queues,
    reading,
    remote_agents,
    replay,
    spike,
    stream_to_workflow,
    submit,
)
from bench.databases import DATABASES, Database
from bench.options import Options
from bench.progress import say
from bench.report import Row

#: On the stores of these names.
Measure = Callable[[Sequence[str], Options], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class Bench:
    name: str
    #: One line: what is measured.
    title: str
    measure: Measure
    #: Whether it runs when nobody asks for a bench by name.
    usual: bool = True


def on_each(measure: Callable[[Database, Options], Iterator[Row]]) -> Measure:
    """The same on one store after the other."""

    def measured(stores: Sequence[str], options: Options) -> Iterator[Row]:
        for store in stores:
            with DATABASES[store]() as database:
                say(f"  on {database.name}")
                yield from measure(database, options)

    return measured


_ALL: Final = (
    Bench("five_steps", "five durable steps a task, beside a bare group commit", on_each(five_steps.measure)),
    Bench("branches", "three parallel steps, then one", on_each(branches.measure)),
    Bench("back_ends", "five steps that wait 50 ms each", on_each(back_ends.measure)),
    Bench("remote_agents", "five steps by agents in a process of their own", on_each(remote_agents.measure)),
    Bench("submit", "submissions only", on_each(submit.measure)),
    Bench("claim", "claims only, in the scheduler's usual size", on_each(claim.measure)),
    Bench("queues", "messages sent, received and completed, or alone in a queue", on_each(queues.measure)),
    Bench("append", "events appended to the embedded log, and read", append.measure),
    Bench("pipelines", "events read into tasks, messages, calls and batches", on_each(pipelines.measure)),
    Bench("ingest", "one event per request over HTTP, beside plain ASGI and others", ingest.measure),
    Bench("spike", "five times the usual load over HTTP for five seconds, reconciled", spike.measure),
    Bench("ndjson", "events over HTTP as lines of JSON", ndjson.measure),
    Bench("reading", "events read over HTTP, with and without others coming in", reading.measure),
    Bench(
        "stream_to_workflow",
        "events over HTTP into five-step workflows, from the first to the last",
        on_each(stream_to_workflow.measure),
    ),
    Bench(
        "drone", "deliveries by drone at scale, with and without kills, reconciled", on_each(drone.measure)
    ),
    Bench("replay", "a task with a journal of 1,000 steps, resumed before the last", on_each(replay.measure)),
    Bench("idle_supervisor", "a supervisor with nothing to do", on_each(idle_supervisor.measure)),
    Bench("console", "pages of the console on a store with a million tasks", console.measure),
    Bench("memory", "memory per task in flight, parked and pending", on_each(memory.measure)),
    Bench("next_after", "the next occurrence of a job that began ten years ago", next_after.measure),
    Bench("jobs", "jobs written, idle, and due at one instant, beside APScheduler", jobs.measure),
    Bench("peers", "five steps in other libraries and here, in one run", beside_peers.measure),
    Bench("queue_peers", "messages through other libraries and here, in one run", queue_peers.measure),
    Bench(
        "growth", "a store full of finished tasks, beside an empty one", on_each(growth.measure), usual=False
    ),
)

BENCHES: Final[dict[str, Bench]] = {bench.name: bench for bench in _ALL}
