"""``python -m bench [NAME …] [--json]``: throughput, latency and idle cost of the durable core here."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import uvloop

from bench import five_steps, idle_supervisor
from tests.support.postgres import PostgresServer, schema_name

RUNS = ((200, 1), (4_000, 100), (12_000, 4_000))

#: Gives the URL of an empty store.
NewStore = Callable[[], str]
Results = list[dict[str, float]]


@contextmanager
def sqlite() -> Iterator[NewStore]:
    with tempfile.TemporaryDirectory() as folder:
        yield lambda: f"sqlite:///{Path(folder) / schema_name()}.db"


@contextmanager
def postgres() -> Iterator[NewStore]:
    with PostgresServer() as server:
        yield lambda: server.url(schema=schema_name())


DATABASES: dict[str, Callable[[], AbstractContextManager[NewStore]]] = {
    "SQLite": sqlite,
    "PostgreSQL": postgres,
}


def run_five_steps(new_store: NewStore) -> Iterator[dict[str, float]]:
    for tasks, in_flight in RUNS:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            yield runner.run(five_steps.measure(new_store(), tasks, in_flight))


def run_idle_supervisor(new_store: NewStore) -> Iterator[dict[str, float]]:
    url = new_store()
    asyncio.run(idle_supervisor.fill(url))
    yield idle_supervisor.measure(url)


BENCHES: dict[str, tuple[str, Callable[[NewStore], Iterator[dict[str, float]]]]] = {
    "five_steps": ("five durable steps a task, fsync on every commit, one process", run_five_steps),
    "idle_supervisor": ("a supervisor with nothing to do", run_idle_supervisor),
}


def main() -> None:
    names = [name for name in sys.argv[1:] if name != "--json"] or list(BENCHES)
    if unknown := set(names) - set(BENCHES):
        sys.exit(f"there is no bench {', '.join(sorted(unknown))}; there are: {', '.join(BENCHES)}")
    as_json = "--json" in sys.argv[1:]
    results = {
        f"{name}_{database.lower()}": run(name, database, quiet=as_json)
        for database in DATABASES
        for name in names
    }
    if as_json:
        print(json.dumps(results))


def run(name: str, database: str, *, quiet: bool) -> Results:
    title, bench = BENCHES[name]
    results: Results = []
    with DATABASES[database]() as new_store:
        for result in bench(new_store):
            if not quiet:
                show(f"{title}, {database}", result, first=not results)
            results.append(result)
    return results


def show(title: str, result: dict[str, float], *, first: bool) -> None:
    if first:
        print(title)
        print("".join(f"{column:>20}" for column in result))
    print("".join(f"{value:>20,}" for value in result.values()), flush=True)


main()
