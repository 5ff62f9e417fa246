"""What the chaos tests kill: an application whose effects on the outside world are written down.

Every body appends the idempotency key of its step to a file and waits for the disk, as a remote
service would record what it was asked to do. The file survives whatever happens to the process, so
that afterwards nobody has to believe the store: the effects are counted by themselves.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from backstay import App, Permanent, Recovery, TaskFailed, current_step
from backstay.client import Handle
from backstay.errors import Unavailable
from backstay.runtime import Running
from backstay.runtime.roles import Roles, parse_roles
from backstay.settings import Settings
from backstay.store.base import Store
from backstay.store.postgres import PostgresStore
from backstay.store.postgres.tables import Tables
from backstay.store.postgres.url import address_of
from backstay.store.sqlite import SqliteStore
from tests.support.databases import Database
from tests.support.lines import whole_lines

#: The keys of an order's steps, and of those that are undone when it is refused.
FORWARD = ("check:1", "1.reserve:1", "2.pack:1", "charge:1", "ship:1")
UNDOABLE = ("check:1", "1.reserve:1", "2.pack:1")

#: Of orders that a test does not draw, each so-manieth is refused: there is something to undo.
REFUSED_EVERY = 3

#: Few enough that a kill leaves few steps of unknown outcome, many enough that their commits mix.
IN_FLIGHT = 50

#: So long the writer stands still before it is killed: what would leave before its commit has the time to.
PAUSE_SECONDS = 0.05

#: Who could not place an order tries again after this pause.
AGAIN_SECONDS = 0.1

#: Written down like an effect once every submission has been acknowledged.
ACKNOWLEDGED = "acknowledged"


class Effects:
    """An append-only file with one line per effect."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self) -> float:
        """A body begins; so many seconds pass before it has its effect."""
        return 0.0

    def add(self, key: str) -> None:
        append(self._path, key)

    def count(self) -> Counter[str]:
        return Counter(whole_lines(self._path))


def append(path: Path, line: str) -> None:
    """Write a line, whole or not at all, and wait for the disk."""
    file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    try:
        os.write(file, f"{line}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)


def orders(effects: Effects) -> App:
    """Five steps, two of them in parallel, one of them in a thread; a refused order fails at the fourth."""
    app = App("chaos")
    shop = app.agent("shop")

    def act() -> str:
        key = current_step().idempotency_key
        effects.add(key)
        return key

    async def work() -> str:
        if seconds := effects.begin():
            await asyncio.sleep(seconds)
        return act()

    @shop.step
    async def check(number: int) -> str:
        return await work()

    @shop.step
    async def reserve(number: int) -> str:
        return await work()

    @shop.step
    def pack(number: int) -> str:
        time.sleep(effects.begin())
        return act()

    @shop.step
    async def charge(number: int, refused: bool) -> str:
        if refused:
            raise Permanent("the card was refused")
        return await work()

    @shop.step
    async def ship(number: int) -> str:
        return await work()

    async def take_back(number: int, *, result: str | None) -> None:
        await work()

    for step in (check, reserve, pack):
        step.undo(take_back)

    # However often its process is killed, an innocent order is not given up.
    @app.workflow(recovery=Recovery(crashes=1000))
    async def order(number: int, refused: bool) -> list[str]:
        async def reserved() -> str:
            return await reserve(number)

        async def packed() -> str:
            parcel: str = await pack(number)
            return parcel

        checked = await check(number)
        both = await asyncio.gather(reserved(), packed())
        return [checked, *both, await charge(number, refused), await ship(number)]

    return app


def is_refused(number: int) -> bool:
    return number % REFUSED_EVERY == REFUSED_EVERY - 1


def refusals(orders: int) -> list[bool]:
    """Of so many orders, whether each is refused."""
    return [is_refused(number) for number in range(orders)]


def effects_of(refused: Sequence[bool]) -> set[str]:
    """The keys under which these orders have an effect, and no other."""
    back = [*UNDOABLE, *(f"{key}/undo" for key in UNDOABLE)]
    return {
        f"order-{number}/{key}" for number, one in enumerate(refused) for key in (back if one else FORWARD)
    }


def ends_of(refused: Sequence[bool]) -> dict[str, str]:
    """How these orders end."""
    return {f"order-{number}": "undone" if one else "processed" for number, one in enumerate(refused)}


def ended(database: Database) -> int:
    """How many orders have ended as one may."""
    [(number,)] = database.rows("SELECT count(*) FROM task WHERE state IN ('processed', 'undone')")
    return int(number)


@dataclass(frozen=True)
class Site:
    """Where the processes of a test work: on this store, and beside it in a folder of their own."""

    folder: Path
    store: str
    #: What an application has to be told so that it soon finds a killed process dead.
    options: Mapping[str, str]

    @property
    def effects(self) -> Effects:
        return Effects(self.folder / "effects")

    def open_store(self) -> Store | None:
        """Another store than the one that applications open by themselves."""
        return None


class Boundaries:
    """The write boundaries of one run: before and after each commit that changes a task or a step.

    Each has a name, the records that it leaves, by which a later run knows it again. The run writes
    down those that it passes, and ends at ``kill_at`` as by ``kill -9``: at the boundary of that
    name, or of that number.
    """

    def __init__(self, folder: Path, kill_at: str | int | None) -> None:
        self._file = folder / "boundaries"
        self._kill_at = kill_at
        self._passed = 0

    @staticmethod
    def passed_in(folder: Path) -> list[str]:
        file = folder / "boundaries"
        return file.read_text().splitlines() if file.exists() else []

    def is_the_last(self, name: str) -> bool:
        """Whether the process is to die at this boundary; one that is not is noted as passed."""
        self._passed += 1
        if self._kill_at in (name, self._passed):
            return True
        with self._file.open("a") as file:
            file.write(f"{name}\n")
        return False


# What a transaction is about to commit, or has just committed, as it sees that itself.
TASKS = "SELECT id, state FROM task ORDER BY id"
STEPS = "SELECT key, state, attempt FROM step ORDER BY task_key, key"


class SqliteBoundaries:
    """There is one writer, in a thread of its own."""

    def __init__(self, url: str, boundaries: Boundaries) -> None:
        self.store = SqliteStore(url, boundary=self._reached)
        self._boundaries = boundaries
        self._records = "[][]"

    def _reached(self, moment: str) -> None:
        records = self._seen_by_the_writer()
        if records == self._records:
            return
        if self._boundaries.is_the_last(f"{moment} {records}"):
            time.sleep(PAUSE_SECONDS)
            os.kill(os.getpid(), signal.SIGKILL)
        if moment == "after":
            self._records = records

    def _seen_by_the_writer(self) -> str:
        connection = self.store._session.writer._connection
        return f"{connection.execute(TASKS).fetchall()}{connection.execute(STEPS).fetchall()}"


class PostgresBoundaries:
    """There are several lanes, whose transactions overlap: each looks at what it has changed itself."""

    #: Whether the transaction at hand wrote a row of ``task`` or ``step``.
    _CHANGED = """
        SELECT EXISTS (SELECT FROM task WHERE xmin = pg_current_xact_id()::xid)
            OR EXISTS (SELECT FROM step WHERE xmin = pg_current_xact_id()::xid)
    """

    def __init__(self, url: str, boundaries: Boundaries) -> None:
        self.store = PostgresStore(url, boundary=self._reached)
        self._schema = address_of(url).schema
        self._boundaries = boundaries
        self._about_to_commit: dict[Any, str] = {}

    async def _reached(self, moment: str, tables: Tables) -> None:
        connection = tables.connection
        if moment == "before":
            self._about_to_commit[connection] = await self._changed_on(connection)
        records = self._about_to_commit[connection]
        if records and self._boundaries.is_the_last(f"{moment} {records}"):
            await asyncio.sleep(PAUSE_SECONDS)
            os.kill(os.getpid(), signal.SIGKILL)

    async def _changed_on(self, connection: Any) -> str:
        """The records as a transaction leaves them; nothing, if it leaves them as they were."""
        await connection.execute(f"SET LOCAL search_path = {self._schema}")
        if not await connection.fetchval(self._CHANGED):
            return ""
        tasks = [tuple(row) for row in await connection.fetch(TASKS)]
        steps = [tuple(row) for row in await connection.fetch(STEPS)]
        return f"{tasks}{steps}"


def place_and_finish(site: Site, refused: Sequence[bool]) -> None:
    """Place an order for each of ``refused`` and run until all have ended. For a process of its own.

    The next process places the same orders again, under the same ids: it cannot know which of them
    were acknowledged.
    """
    asyncio.run(_place_and_finish(site, refused, site.store))


def place_and_finish_unless_killed(site: Site, refused: Sequence[bool], kill_at: str | int | None) -> None:
    """The same, but the process ends at a write boundary."""
    kind = SqliteBoundaries if site.store.startswith("sqlite:") else PostgresBoundaries
    store = kind(site.store, Boundaries(site.folder, kill_at)).store
    asyncio.run(_place_and_finish(site, refused, store))


async def _place_and_finish(site: Site, refused: Sequence[bool], store: str | Store) -> None:
    app = orders(site.effects)
    inputs = [{"number": number, "refused": one} for number, one in enumerate(refused)]
    async with app.run(store, in_flight=IN_FLIGHT, **site.options):
        handles = await asyncio.gather(*(_placed(app, one) for one in inputs))
        site.effects.add(ACKNOWLEDGED)
        for handle in handles:
            with suppress(TaskFailed):
                await handle.result()


async def _placed(app: App, order: dict[str, Any]) -> Handle:
    """Place an order, as often as the store has no answer: another process may be placing the same ones."""
    while True:
        try:
            return await app.submit("order", order, id=f"order-{order['number']}")
        except Unavailable:
            await asyncio.sleep(AGAIN_SECONDS)


def serve(site: Site, *roles: str) -> None:
    """Have these roles of the application, and no other, until killed. For a process of its own."""
    asyncio.run(_serve(site, parse_roles(roles)))


async def _serve(site: Site, roles: Roles) -> None:
    settings = Settings.load({"store": site.store, "in_flight": IN_FLIGHT, **site.options}, environment={})
    registry = orders(site.effects).registry
    async with Running(registry, settings, store=site.open_store(), roles=roles):
        await asyncio.Event().wait()


def finish_each(sites: Sequence[Site], refused: Sequence[bool]) -> None:
    """Take up what was left at each of ``sites``, one after the other. For a process of its own."""
    for site in sites:
        place_and_finish(site, refused)


# Children are forked from a server that has imported all of this: they start in milliseconds.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["pytest", "tests.chaos.workload"])


def started(target: Callable[..., None], *args: Any) -> BaseProcess:
    """A child process that runs ``target``; its exit code is negative when a signal ended it."""
    child = _processes.Process(target=target, args=args, daemon=True)
    child.start()
    return child


def run(target: Callable[..., None], *args: Any) -> int | None:
    """Run ``target`` in a child process to its end; the exit code."""
    child = started(target, *args)
    child.join()
    return child.exitcode
