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
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from backstay import App, Permanent, Recovery, TaskFailed, current_step
from backstay.store.sqlite import SqliteStore

#: The keys of an order's steps, and of those that are undone when it is refused.
FORWARD = ("check:1", "1.reserve:1", "2.pack:1", "charge:1", "ship:1")
UNDOABLE = ("check:1", "1.reserve:1", "2.pack:1")

#: Few enough that a kill leaves few steps of unknown outcome, many enough that their commits mix.
IN_FLIGHT = 50

#: Written down like an effect once every submission has been acknowledged.
ACKNOWLEDGED = "acknowledged"


class Effects:
    """An append-only file with one line per effect."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, key: str) -> None:
        file = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        try:
            os.write(file, f"{key}\n".encode())
            os.fsync(file)
        finally:
            os.close(file)

    def count(self) -> Counter[str]:
        return Counter(self._path.read_text().splitlines()) if self._path.exists() else Counter()


def orders(effects: Effects) -> App:
    """Five steps, two of them in parallel, one of them in a thread; a refused order fails at the fourth."""
    app = App("chaos")
    shop = app.agent("shop")

    def act() -> str:
        key = current_step().idempotency_key
        effects.add(key)
        return key

    @shop.step
    async def check(number: int) -> str:
        return act()

    @shop.step
    async def reserve(number: int) -> str:
        return act()

    @shop.step
    def pack(number: int) -> str:
        return act()

    @shop.step
    async def charge(number: int, refused: bool) -> str:
        if refused:
            raise Permanent("the card was refused")
        return act()

    @shop.step
    async def ship(number: int) -> str:
        return act()

    async def take_back(number: int, *, result: str | None) -> None:
        act()

    for step in (check, reserve, pack):
        step.undo(take_back)

    # However often its process is killed, an innocent order is not given up.
    @app.workflow(recovery=Recovery(crashes=1000))
    async def order(number: int, refused: bool) -> list[str]:
        async def reserved() -> str:
            return await reserve(number)

        async def packed() -> str:
            return await pack(number)  # type: ignore[misc]  # Synchronous outside a workflow.

        checked = await check(number)
        both = await asyncio.gather(reserved(), packed())
        return [checked, *both, await charge(number, refused), await ship(number)]

    return app


def killer(at: int | None) -> Callable[[str], None]:
    """A write boundary at which the process ends, as by ``kill -9``: the ``at``-th that it comes to."""
    passed = 0

    def boundary(_moment: str) -> None:
        nonlocal passed
        passed += 1
        if passed == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return boundary


def place_and_finish(folder: Path, refused: Sequence[bool], kill_at: int | None = None) -> None:
    """Place an order for each of ``refused`` and run until all have ended. For a process of its own.

    The next process places the same orders again, under the same ids: it cannot know which of them
    were acknowledged.
    """
    asyncio.run(_place_and_finish(folder, refused, killer(kill_at)))


async def _place_and_finish(folder: Path, refused: Sequence[bool], boundary: Callable[[str], None]) -> None:
    effects = Effects(folder / "effects")
    app = orders(effects)
    inputs = [{"number": number, "refused": one} for number, one in enumerate(refused)]
    store = SqliteStore(f"sqlite:///{folder / 'store.db'}", boundary=boundary)
    async with app.run(store, in_flight=IN_FLIGHT):
        placing = [app.submit("order", one, id=f"order-{one['number']}") for one in inputs]
        handles = await asyncio.gather(*placing)
        effects.add(ACKNOWLEDGED)
        for handle in handles:
            with suppress(TaskFailed):
                await handle.result()


def finish_each(folders: Sequence[Path], refused: Sequence[bool]) -> None:
    """Take up what was left in each of ``folders``, one after the other. For a process of its own."""
    for folder in folders:
        place_and_finish(folder, refused)


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
