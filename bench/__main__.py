"""``python -m bench [--json]``: throughput and latency of the durable core on this machine."""

from __future__ import annotations

import asyncio
import json
import sys

import uvloop

from bench.five_steps import measure

RUNS = ((200, 1), (4_000, 100), (12_000, 4_000))


def main() -> None:
    as_json = "--json" in sys.argv[1:]
    results = []
    for tasks, in_flight in RUNS:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            results.append(runner.run(measure(tasks, in_flight)))
        if not as_json:
            if len(results) == 1:
                print("five durable steps a task, SQLite, fsync on every commit, one process")
                print("".join(f"{name:>18}" for name in results[0]))
            print("".join(f"{value:>18,}" for value in results[-1].values()), flush=True)
    if as_json:
        print(json.dumps({"five_steps_sqlite": results}))


main()
