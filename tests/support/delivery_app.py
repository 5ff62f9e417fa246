"""A delivery company: the application that the processes of an acceptance test run.

Its three services stand outside of every process. What they were asked, and what they did, is appended to
a file that survives whatever happens to the processes, so that nobody has to believe the store. How well
they work is dialled by the files of a folder, since real processes share nothing else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from backstay import App, Breaker, Permanent, Recovery, Retry, current_step
from backstay.clock import SystemClock

#: Names the folder of the services. Not a setting of the engine: it leaves BACKSTAY_TEST… to tests.
FOLDER_VARIABLE = "BACKSTAY_TEST_SERVICES"

#: So many times an agent calls a service within one attempt.
TRIES = 2

#: How long a task of ``deliver_patiently`` rests before it is tried again.
REST = "1s"

_LOOK_EVERY_SECONDS = 0.01

#: Whose operations these are, and how many of them may be at work at once in a process.
AGENTS = {
    **dict.fromkeys(("reserve", "release"), "warehouse"),
    **dict.fromkeys(("charge", "refund"), "bank"),
    **dict.fromkeys(("ship", "recall", "hand_over"), "courier"),
}
CONCURRENCY = {"warehouse": 10, "courier": 1}


class Entry(msgspec.Struct, frozen=True):
    """One line of the services' own book."""

    what: Literal["asked", "done", "left"]
    operation: str
    key: str
    attempt: int
    complete_by: datetime
    #: What an undo was told about the step that it undoes.
    outcome: str | None
    at: datetime
    pid: int


class Services:
    """Their book, and their dials: what a step does with them, and what a test does with them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._book = folder / "book"

    # The dials

    def fail(self, operation: str, *, times: int | None = None) -> None:
        """Raise an error that may pass: so many times, or until repaired."""
        for number in ["always"] if times is None else range(times):
            self._dial(operation, f"fails-{number}").touch()

    def refuse(self, operation: str) -> None:
        """Say that it will never work, until repaired."""
        self._dial(operation, "refuses").touch()

    def hang(self, operation: str, *, attempt: int | None = None) -> None:
        """Answer nobody until repaired; with ``attempt``, only that one is kept waiting."""
        self._dial(operation, "hangs").write_text("" if attempt is None else str(attempt))

    def die(self, operation: str, *, attempt: int | None = None, task_id: str = "") -> None:
        """Have the process that asks killed once it was done, before it can say so: any, or one of these."""
        self._dial(operation, "dies").write_text(f"{task_id}/{'' if attempt is None else attempt}")

    def repair(self, operation: str) -> None:
        for dial in self._folder.glob(self._dial(operation, "*").name):
            dial.unlink()

    def _dial(self, operation: str, fault: str) -> Path:
        return self._folder / f"dial-{operation}-{fault}"

    # The book

    def asked(self, operation: str, task_id: str | None = None) -> list[Entry]:
        """Every call of this operation, in order; of one task, or of all."""
        return list(self._entries("asked", [operation], task_id))

    def effects(self, *operations: str, task_id: str | None = None) -> list[Entry]:
        """What took place, in order: everything, or these operations; of one task, or of all."""
        return list(self._entries("done", operations, task_id))

    def book(self) -> list[Entry]:
        """All of it, in order."""
        lines = self._book.read_bytes().splitlines() if self._book.exists() else []
        return [msgspec.json.decode(line, type=Entry) for line in lines]

    def _entries(self, what: str, operations: Iterable[str], task_id: str | None) -> Iterable[Entry]:
        for entry in self.book():
            of_task = task_id is None or entry.key.startswith(f"{task_id}/")
            if entry.what == what and of_task and (not operations or entry.operation in operations):
                yield entry

    # What a step does

    async def do(self, operation: str) -> str:
        """Ask a service and wait for it, as long as anybody waits for us."""
        with self._asked(operation):
            while self._hangs(operation):
                await asyncio.sleep(_LOOK_EVERY_SECONDS)
            return self._take_effect(operation)

    def do_in_thread(self, operation: str) -> str:
        """Ask a service and wait for it, although nobody may wait for us any more: what comes, comes late."""
        with self._asked(operation):
            while self._hangs(operation):
                time.sleep(_LOOK_EVERY_SECONDS)
            return self._take_effect(operation)

    @contextmanager
    def _asked(self, operation: str) -> Iterator[None]:
        self._write("asked", operation)
        try:
            self._meet_trouble(operation)
            yield
        finally:
            self._write("left", operation)

    def _meet_trouble(self, operation: str) -> None:
        if self._dial(operation, "refuses").exists():
            raise Permanent(f"{operation} is refused")
        if self._fails(operation):
            raise ConnectionError(f"{operation} is out of order")

    def _take_effect(self, operation: str) -> str:
        self._write("done", operation)
        self._meet_death(operation)
        return f"{operation} by attempt {current_step().attempt}"

    def _meet_death(self, operation: str) -> None:
        """Between the effect and the reply that tells of it."""
        try:
            which = self._dial(operation, "dies").read_text()
        except FileNotFoundError:
            return
        task_id, _, attempt = which.rpartition("/")
        step = current_step()
        if task_id in {"", step.task_id} and attempt in {"", str(step.attempt)}:
            os.kill(os.getpid(), signal.SIGKILL)

    def _fails(self, operation: str) -> bool:
        if self._dial(operation, "fails-always").exists():
            return True
        once = next(self._folder.glob(self._dial(operation, "fails-*").name), None)
        if once is not None:
            once.unlink()
        return once is not None

    def _hangs(self, operation: str) -> bool:
        try:
            which = self._dial(operation, "hangs").read_text()
        except FileNotFoundError:
            return False
        return which in {"", str(current_step().attempt)}

    def _write(self, what: Literal["asked", "done", "left"], operation: str) -> None:
        step = current_step()
        entry = Entry(
            what=what,
            operation=operation,
            key=step.idempotency_key,
            attempt=step.attempt,
            complete_by=step.complete_by,
            outcome=step.outcome,
            at=SystemClock().now(),
            pid=os.getpid(),
        )
        file = os.open(self._book, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        try:
            os.write(file, msgspec.json.encode(entry) + b"\n")
            os.fsync(file)
        finally:
            os.close(file)


services = Services(Path(os.environ.get(FOLDER_VARIABLE, ".")))

app = App("delivery")
_retry = Retry(attempts=TRIES, first="10ms")
warehouse = app.agent("warehouse", complete_by="30s", retry=_retry, concurrency=CONCURRENCY["warehouse"])
# As long as the settings say: one test wants it short.
bank = app.agent("bank", retry=_retry, breaker=Breaker(open_for="1s", open_for_max="4s"))
# One parcel at a time: the others stand in line.
courier = app.agent("courier", complete_by="30s", retry=_retry, concurrency=CONCURRENCY["courier"])


@warehouse.step
async def reserve(order: str) -> str:
    return await services.do("reserve")


@reserve.undo
async def release(order: str, *, result: str | None) -> None:
    await services.do("release")


# In a thread, which nobody can stop.
@bank.step
def charge(order: str) -> str:
    return services.do_in_thread("charge")


@charge.undo
async def refund(order: str, *, result: str | None) -> None:
    await services.do("refund")


@courier.step
async def ship(order: str) -> str:
    return await services.do("ship")


@ship.undo
async def recall(order: str, *, result: str | None) -> None:
    await services.do("recall")


@courier.step
async def hand_over(order: str) -> str:
    return await services.do("hand_over")


@hand_over.undo(manual=True)
def fetch_back() -> None:
    """By somebody who goes there."""


async def _deliver(order: str) -> list[str]:
    return [await reserve(order), await charge(order), await ship(order)]


#: The same work under each policy, as far as it matters what comes after a failure.
POLICIES = {
    "deliver": Recovery(attempts=2, then="error"),
    "deliver_or_undo": Recovery(attempts=2, then="undo", undo_attempts=2),
    "deliver_patiently": Recovery(attempts=1, then="wait", wait=REST),
    "deliver_through_an_outage": Recovery(attempts=100, then="wait", wait=REST),
}
for _name, _recovery in POLICIES.items():
    app.workflow(name=_name, recovery=_recovery)(_deliver)

#: After so many deaths of the process that held it a task of ``deliver_at_risk`` is stopped.
CRASHES = 3
app.workflow(name="deliver_at_risk", recovery=Recovery(crashes=CRASHES, then="error"))(_deliver)


# It needs the warehouse alone, whatever the bank or the courier do.
@app.workflow
async def pick_up(order: str) -> str:
    return await reserve(order)


# A run that takes longer is taken away from whoever holds it.
app.workflow(name="deliver_swiftly", complete_by="2s")(_deliver)


@app.workflow
async def deliver_by_hand(order: str) -> list[str]:
    return [await reserve(order), await hand_over(order), await charge(order)]
