"""``python -m bench [NAME …] [--json] [--store STORE] [--short]``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from bench.catalogue import BENCHES, Bench
from bench.conditions import conditions, described
from bench.databases import DATABASES
from bench.options import (
    GROWN_TASKS,
    SHORT_GROWN_TASKS,
    SHORT_SPIKE_SECONDS,
    SPIKE_SECONDS,
    Options,
)
from bench.progress import say
from bench.report import Row, document, table


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = _parser().parse_args(arguments)
    stores = [chosen.store] if chosen.store else list(DATABASES)
    names = chosen.names or [bench.name for bench in BENCHES.values() if bench.usual]
    tasks = chosen.tasks or (SHORT_GROWN_TASKS if chosen.short else GROWN_TASKS)
    seconds = chosen.seconds or (SHORT_SPIKE_SECONDS if chosen.short else SPIKE_SECONDS)
    options = Options(
        short=chosen.short, tasks=tasks, fresh=chosen.fresh, seconds=seconds, plots=chosen.plots
    )
    found = conditions(stores)
    if not chosen.json:
        print(f"{described(found)}\n", flush=True)
    results = {}
    for name in names:
        results[name] = _measured(BENCHES[name], stores, options)
        if not chosen.json:
            print(table(f"{name}: {BENCHES[name].title}", results[name]), flush=True)
    if chosen.json:
        print(document(found, results))


def _measured(bench: Bench, stores: Sequence[str], options: Options) -> list[Row]:
    say(f"{bench.name}: {bench.title}")
    return list(bench.measure(stores, options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure the durable core on this machine; fsync is on everywhere.",
        epilog=_listing(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=_bench_name, help="all but growth if none")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--store", choices=list(DATABASES), help="one store instead of all")
    parser.add_argument("--short", action="store_true", help="tiny numbers: shows that it works, no more")
    growth = parser.add_argument_group("growth")
    growth.add_argument(
        "--tasks",
        type=_positive,
        help=f"finished tasks in the full store ({GROWN_TASKS:,})",
    )
    growth.add_argument("--fresh", action="store_true", help="fill it anew; else one that is there is used")
    spike = parser.add_argument_group("spike")
    spike.add_argument(
        "--seconds", type=_positive, help=f"of the load before the spike ({SPIKE_SECONDS}; ten minutes: 600)"
    )
    plots = parser.add_argument_group("stream_to_workflow, drone")
    plots.add_argument(
        "--plots", type=Path, metavar="FOLDER", help="draw what happened over time, as PNG, into this folder"
    )
    return parser


def _listing() -> str:
    width = max(map(len, BENCHES))
    lines = [f"  {bench.name:<{width}}  {bench.title}" for bench in BENCHES.values()]
    return "\n".join(["benches:", *lines])


def _bench_name(text: str) -> str:
    if text not in BENCHES:
        raise argparse.ArgumentTypeError(f"there is no bench {text!r}; there are: {', '.join(BENCHES)}")
    return text


def _positive(text: str) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few")
    return number
