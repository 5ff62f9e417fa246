"""The other systems, one after the other: each is installed, started, measured and stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Final

from bench.databases import DATABASES
from bench.peers.catalogue import Peer
from bench.peers.environment import ROOT, Environment, NotInstalled, prepare
from bench.peers.processes import CommandFailed, lines
from tests.support.ports import free_ports
from tests.support.postgres import PostgresServer

SECONDS: Final = 10.0

#: Starting the servers, and the first task.
_START_SECONDS_MAX: Final = 120.0
#: Warm-up, points and trials for the peak, each with the wait for what is in flight at its end, as multiples
#: of the time of one point.
_POINTS_MAX: Final = 10
#: A point lasts as long as the tasks that are in flight, however short it was meant to be.
_POINT_SECONDS_MIN: Final = 20.0

#: No report to anybody else while we measure, and no colours in an error that is quoted.
_QUIET: Final = {
    "DO_NOT_TRACK": "1",
    "RESTATE_DISABLE_TELEMETRY": "true",
    "RESTATE_LOG_DISABLE_ANSI_CODES": "true",
}

Row = dict[str, object]


def measure_peers(peers: Sequence[Peer], *, seconds: float = SECONDS) -> Iterator[Row]:
    """One row per peer and point, as they come, each point measured for about ``seconds``.

    A peer that cannot be installed or started, or that breaks, gives a row that says why in ``error``; the
    others go on. Nothing is left running, however the reader ends.
    """
    return chain.from_iterable(_rows(peer, seconds) for peer in peers)


def on_stores(peers: Mapping[str, Peer], stores: Sequence[str]) -> list[Peer]:
    """Those to measure beside ours on ``stores``; one whose store is none of ours is always among them."""
    excluded = set(DATABASES) - set(stores)
    return [peer for peer in peers.values() if peer.store.lower() not in excluded]


def _rows(peer: Peer, seconds: float) -> Iterator[Row]:
    name: Row = {"peer": peer.name, "store": peer.store}
    about: Row = {
        "durability": peer.durability,
        "starts": peer.starts,
        "packages": ", ".join(peer.packages.pins),
    }
    try:
        for point in _points(peer, seconds):
            yield name | point | about
    # The last one is how PostgreSQL says that it does not come up.
    except (NotInstalled, CommandFailed, OSError, RuntimeError) as failure:
        yield name | about | {"error": str(failure)}


def _points(peer: Peer, seconds: float) -> Iterator[Row]:
    environment = prepare(peer.packages)
    with ExitStack() as stack:
        options = [*peer.options, f"--seconds={seconds}", *(f"--port={port}" for port in _ports(peer))]
        if peer.needs_postgres:
            options.append(f"--postgres={stack.enter_context(PostgresServer()).url('peer')}")
        for line in lines(
            [environment.python, "-P", "-m", f"bench.peers.programs.{peer.program}", *options],
            seconds=_START_SECONDS_MAX + _POINTS_MAX * max(seconds, _POINT_SECONDS_MIN),
            environment=_variables(environment),
        ):
            yield json.loads(line)


def _ports(peer: Peer) -> Sequence[int]:
    return free_ports(peer.ports) if peer.ports else ()


def _variables(environment: Environment) -> Mapping[str, str]:
    return {"PYTHONPATH": str(ROOT), "VIRTUAL_ENV": str(environment.path), **_QUIET}
