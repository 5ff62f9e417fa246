"""A scheduler, an agent or a supervisor fails, one at a time, at a moment that the test chooses."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backstay.store.base import Store
from backstay.store.postgres import PostgresStore
from backstay.store.requests import Answered
from backstay.store.sqlite import SqliteStore
from tests.chaos.matrix import Healing, Part, Watch, failure
from tests.chaos.trail import lay_trail, noting_store
from tests.chaos.workload import (
    FORWARD,
    Effects,
    Site,
    append,
    effects_of,
    ended,
    ends_of,
    is_refused,
    place_and_finish,
    place_and_finish_unless_killed,
    refusals,
    run,
    serve,
    started,
)
from tests.support.databases import Database, SqliteDatabase
from tests.support.delivery_app import Services
from tests.support.platform import SHORT_LEASE, Platform, eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]

DELIVERED = ["reserve by attempt 1", "charge by attempt 1", "ship by attempt 1"]
SCHEDULER = "api,scheduler,supervisor"


@pytest.fixture
def platform(database: Database, tmp_path: Path, watch: Watch) -> Iterator[Platform]:
    with Platform(database, tmp_path) as platform:
        yield platform
    watch.facts.of_services(platform.services)


@pytest.fixture
def services(platform: Platform) -> Services:
    return platform.services


# A scheduler


def killed_at(boundary: str, folder: Path, database: Database) -> Site:
    """A site whose process came to the boundary, and no further."""
    site = Site(folder, database.url, database.heir())
    assert run(place_and_finish_unless_killed, site, [False], boundary) == -signal.SIGKILL
    return site


@failure(
    "a scheduler is killed before it claims",
    of=Part.SCHEDULERS,
    seen="nothing: the task was acknowledged, and waits as `pending`",
    heals="any other scheduler claims it, or the same one when it is started again",
    takes="the next look of a scheduler, at once",
    within="20s",
    invariants=(1, 2, 4, 5, 14, 16),
)
def test_when_a_scheduler_is_killed_before_it_claims_another_takes_the_task(
    tmp_path: Path, database: Database, watch: Watch, healing: Healing
):
    # The one writer of SQLite stands still there; on PostgreSQL another lane could go on to claim it. And
    # what SQLite writes as one statement is not to be seen before its commit.
    is_sqlite = isinstance(database, SqliteDatabase)
    last = "after [('order-0', 'pending')][]" if is_sqlite else "before [('order-0', 'processing')][]"
    site = killed_at(last, tmp_path, database)
    left = database.rows("SELECT state, locked_by, crash_count FROM task")

    with healing():
        assert run(place_and_finish, site, [False]) == 0

    assert left == [("pending", None, 0)]
    assert database.rows("SELECT crash_count FROM task") == [(0,)], "nobody died over it"
    once_each(site)
    watch.facts.model = {"order-0": "processed"}


@failure(
    "a scheduler is killed after it claimed",
    of=Part.SCHEDULERS,
    seen="the task is `processing` and held by nobody who lives, until the supervisor sees it",
    heals="the supervisor declares the instance dead, which frees its tasks in the same commit",
    takes="`lease` + `supervisor_period`; on SQLite one period, since a lock file tells of the death",
    within="20s",
    invariants=(1, 2, 4, 5, 13, 14, 16),
)
def test_when_a_scheduler_is_killed_after_it_claimed_the_task_is_freed_and_goes_on(
    tmp_path: Path, database: Database, watch: Watch, healing: Healing
):
    site = killed_at("after [('order-0', 'processing')][]", tmp_path, database)
    [(state, holder)] = database.rows("SELECT state, locked_by FROM task")

    with healing():
        assert run(place_and_finish, site, [False]) == 0

    assert (state, holder is None) == ("processing", False)
    assert freed(database) == {"order-0": 1}
    once_each(site)
    watch.facts.model = {"order-0": "processed"}


def once_each(site: Site) -> None:
    effects = site.effects.count()
    assert {key: effects[f"order-0/{key}"] for key in FORWARD} == dict.fromkeys(FORWARD, 1)


# An agent in a process of its own


@failure(
    "an agent is killed mid-step",
    of=Part.AGENTS,
    seen="the step stays `running` until the death of its host is known; then it is attempt 2",
    heals=(
        "the supervisor breaks off what the dead host had taken up; another host gets it, under the same key"
    ),
    takes="`lease` + `supervisor_period`; on SQLite one period",
    within="30s",
    invariants=(1, 2, 3, 4, 5, 6, 13, 14),
)
def test_when_an_agent_is_killed_mid_step_another_does_the_step(
    platform: Platform, services: Services, healing: Healing
):
    """SAS-04, SAS-10."""
    platform.serve(SCHEDULER, "agents", "agents", **platform.soon_found_dead)
    services.hang("charge")
    platform.submit("deliver", "o1")
    platform.until_asked("charge")
    [asked] = services.asked("charge")
    victim = next(process for process in platform.processes if process.pid == asked.pid)

    with healing():
        victim.kill()
        services.repair("charge")
        processed = platform.until("o1", "processed")

    assert processed["output"] == [DELIVERED[0], "charge by attempt 2", DELIVERED[2]]
    assert [one.attempt for one in services.asked("charge")] == [1, 2]
    assert [effect.operation for effect in services.effects()] == ["reserve", "charge", "ship"]
    assert platform.steps("o1")["charge:1"]["failure_count"] == 0, "a death is nobody's failure"


@failure(
    "an agent hangs",
    of=Part.AGENTS,
    seen="the step stays `running`; its host gives no sign of life, and answers nothing",
    heals="the host is declared dead when its lease is over, and its step goes to another",
    takes="`lease` + `supervisor_period`, and never longer than the step's complete-by",
    within="30s",
    invariants=(1, 2, 3, 4, 5, 6, 13, 14),
)
def test_when_an_agent_hangs_another_does_the_step_and_the_first_changes_nothing_when_it_wakes(
    platform: Platform, services: Services, healing: Healing
):
    """SAS-03, SAS-04, SAS-22, SAS-23."""
    platform.serve(SCHEDULER, "agents", "agents", **SHORT_LEASE)
    services.hang("ship")
    platform.submit("deliver", "o1")
    platform.until_asked("ship")
    [asked] = services.asked("ship")
    victim = next(process for process in platform.processes if process.pid == asked.pid)

    with healing():
        platform.freeze(victim)
        services.repair("ship")
        processed = platform.until("o1", "processed")
    steps = platform.steps("o1")
    victim.thaw()
    victim.until_said("instance_dead")

    assert processed["output"] == [*DELIVERED[:2], "ship by attempt 2"]
    assert (platform.task("o1"), platform.steps("o1")) == (processed, steps)


@failure(
    "a reply is lost",
    of=Part.AGENTS,
    seen="the service did its work, and the store still says `running`",
    heals="the step is attempted again under the same idempotency key: the service knows that it has done it",
    takes="`lease` + `supervisor_period` when its sender died; else until the step's complete-by",
    within="30s",
    invariants=(1, 2, 3, 5, 6, 14),
)
def test_when_a_reply_is_lost_the_step_is_asked_for_again_under_the_same_key(
    platform: Platform, services: Services, healing: Healing
):
    """SAS-10, VA-05."""
    platform.serve(SCHEDULER, "agents", "agents", **platform.soon_found_dead)
    services.die("charge", attempt=1)

    with healing():
        platform.submit("deliver", "o1")
        processed = platform.until("o1", "processed")

    assert processed["output"][1] == "charge by attempt 2"
    assert [(one.key, one.attempt) for one in services.effects("charge")] == [
        ("o1/charge:1", 1),
        ("o1/charge:1", 2),
    ]
    assert len(services.effects("reserve", "ship")) == 2


@dataclass(frozen=True)
class RepeatingSite(Site):
    """Whose agents say everything twice, as a network may that has lost the first answer."""

    def open_store(self) -> Store:
        kind: Any = SqliteStore if self.store.startswith("sqlite:") else PostgresStore
        store: Store = kind(self.store)
        requests: Any = type(store.requests)
        path = self.folder / "answers"
        answer = requests.answer

        async def twice(self: Any, answers: list[Answered], **how: Any) -> list[bool]:
            first = await answer(self, answers, **how)
            second = await answer(self, answers, **how)
            for pair in zip(first, second, strict=True):
                append(path, " ".join(str(one) for one in pair))
            return first

        requests.answer = twice  # In this process only.
        return store


@failure(
    "a reply comes twice",
    of=Part.AGENTS,
    seen="nothing",
    heals="the second one finds its request answered, or gone, and changes nothing",
    takes="no time",
    within="30s",
    invariants=(1, 2, 3, 5, 7, 14, 16),
)
def test_when_a_reply_comes_twice_it_is_recorded_once(
    tmp_path: Path, database: Database, watch: Watch, healing: Healing
):
    """SAS-30."""
    site = RepeatingSite(tmp_path, database.url, database.heir(lease="10s"))
    agents = started(serve, site, "agents")
    scheduler = started(serve, Site(tmp_path, database.url, site.options), "scheduler", "supervisor")
    refused = refusals(4)
    try:
        with healing():
            placed(site, len(refused))
            until_ended(database, len(refused))
    finally:
        kill(agents, scheduler)

    told = Effects(tmp_path / "answers").count()
    # All that had an effect, and that the card was refused.
    assert told.total() == len(effects_of(refused)) + refused.count(True)
    # At the moment of the second answer the first may have been taken note of already, or not yet.
    assert {pair.split()[0] for pair in told} == {"True"}
    assert site.effects.count() == dict.fromkeys(effects_of(refused), 1)
    watch.facts.model = ends_of(refused)


# A supervisor


class Doom:
    """Kills a supervisor inside a transaction of its own, once there is something to recover."""

    def __init__(self, folder: Path) -> None:
        self._sign = folder / "doomed"
        self._died = folder / "died"

    def reached(self, place: str) -> None:
        if place == "inside" and self._sign.exists():
            self._sign.unlink()
            append(self._died, str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class DoomedSite(Site):
    def open_store(self) -> Store:
        return noting_store(self.store, Doom(self.folder))  # type: ignore[arg-type]


@failure(
    "a supervisor is killed mid-recovery",
    of=Part.SUPERVISORS,
    seen="nothing was recovered yet: what it had begun to write is rolled back",
    heals="another supervisor takes the lead under the next epoch and does all of it",
    takes="`lease` for the lead, and a `supervisor_period`; on SQLite the period",
    within="30s",
    invariants=(1, 2, 4, 5, 7, 13, 14, 16),
)
def test_when_a_supervisor_is_killed_mid_recovery_another_recovers_everything_once(
    tmp_path: Path, database: Database, watch: Watch, healing: Healing
):
    """SAS-09, LE-1, LE-2."""
    orders = 6
    lay_trail(database)
    settings = {**database.heir(), "heartbeat": "250ms", "supervisor_period": "100ms"}
    doomed = DoomedSite(tmp_path, database.url, settings)
    plain = Site(tmp_path, database.url, settings)
    slow = SlowSite(tmp_path, database.url, settings)
    supervisors = [started(serve, doomed, "supervisor") for _ in range(2)]
    victim = started(serve, slow, "scheduler", "agents")
    heir = None
    try:
        placed(slow, orders)
        eventually(lambda: held(database), lambda number: number == orders, what="a victim that holds all")
        victim.kill()
        victim.join()
        with healing():
            (tmp_path / "doomed").touch()
            heir = started(serve, plain, "scheduler", "agents")
            until_ended(database, orders)
    finally:
        kill(victim, *supervisors, *([] if heir is None else [heir]))

    assert Effects(tmp_path / "died").count().total() == 1, "a supervisor died in the middle of it"
    assert freed(database) == {f"order-{number}": 1 for number in range(orders)}
    watch.facts.model = ends_of(refusals(orders))


@dataclass(frozen=True)
class SlowSite(Site):
    """Whose bodies take so long that none comes to its end before the process is killed."""

    @property
    def effects(self) -> SlowEffects:
        return SlowEffects(self.folder / "began")


class SlowEffects(Effects):
    def begin(self) -> float:
        self.add("began")
        return 60.0


# What they share


def placed(site: Site, orders: int) -> None:
    """Place so many orders, from a process that then ends."""
    assert run(place_only, site, orders) == 0


def place_only(site: Site, orders: int) -> None:
    import asyncio

    from tests.chaos.workload import orders as shop

    async def work() -> None:
        async with shop(site.effects).client(site.store) as client:
            for number in range(orders):
                order = {"number": number, "refused": is_refused(number)}
                await client.submit("order", order, id=f"order-{number}")

    asyncio.run(work())


def until_ended(database: Database, orders: int) -> None:
    eventually(lambda: ended(database), lambda number: number == orders, what="the end of all orders")


def held(database: Database) -> int:
    return database.rows("SELECT count(*) FROM task WHERE state = 'processing'")[0][0]


def freed(database: Database) -> dict[str, int]:
    """How often each task was taken from who held it and put back into the line."""
    return dict(
        database.rows(
            "SELECT id, count(*) FROM history"
            " WHERE what = 'task' AND before = 'processing' AND after = 'pending' GROUP BY id"
        )
    )


def kill(*children: Any) -> None:
    for child in children:
        child.kill()
        child.join()
