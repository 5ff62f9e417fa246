"""``python -m bench [--json]``: throughput and latency of the durable core on this machine."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import uvloop

from bench.five_steps import measure
from tests.support.postgres import PostgresServer, schema_name

RUNS = ((200, 1), (4_000, 100), (12_000, 4_000))

#: Gives the URL of an empty store.
NewStore = Callable[[], str]


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


def main() -> None:
    as_json = "--json" in sys.argv[1:]
    results = {}
    for name, database in DATABASES.items():
        with database() as new_store:
            results[f"five_steps_{name.lower()}"] = five_steps(name, new_store, quiet=as_json)
    if as_json:
        print(json.dumps(results))


def five_steps(name: str, new_store: NewStore, *, quiet: bool) -> list[dict[str, float]]:
    results: list[dict[str, float]] = []
    for tasks, in_flight in RUNS:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            results.append(runner.run(measure(new_store(), tasks, in_flight)))
        if not quiet:
            if len(results) == 1:
                print(f"five durable steps a task, {name}, fsync on every commit, one process")
                print("".join(f"{column:>18}" for column in results[0]))
            print("".join(f"{value:>18,}" for value in results[-1].values()), flush=True)
    return results


main()
