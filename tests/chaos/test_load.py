"""Too much comes, or what comes cannot be done: what is bounded stays so, and everything else goes on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.chaos.matrix import FULL, Healing, Part, Watch, failure
from tests.support.databases import Database
from tests.support.delivery_app import CRASHES, TRIES, Services
from tests.support.memory import rss_kib
from tests.support.platform import EVERYTHING, Platform, eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

#: So long a service does not answer.
DEAD_SECONDS = 150.0 if FULL else 2.0
#: So many tasks of others at least are timed, before and meanwhile.
TIMED = 20
#: A task of another may take so much longer meanwhile: a machine is not as busy at one time as at another.
SLOWER_MAX, SLOWER_MAX_SECONDS = 3, 0.1
#: What the process may have in memory in the end that it had not when the outage began: nothing that comes
#: and goes stays, and 5 to 10 MiB are the allocator's.
GROWTH_MAX_KIB = 32 * 1024
IN_FLIGHT = 20
BACKLOG = 40
#: More than there is room for, in flight and waiting.
FLOOD = 4 * BACKLOG
PATIENCE_SECONDS = 60


@pytest.fixture
def platform(database: Database, tmp_path: Path, watch: Watch) -> Iterator[Platform]:
    with Platform(database, tmp_path) as platform:
        yield platform
    watch.facts.of_services(platform.services)


@pytest.fixture
def services(platform: Platform) -> Services:
    return platform.services


def offered(platform: Platform, workflow: str, ids: list[str]) -> tuple[list[str], list[str]]:
    """Hand these in; those that were taken, and those that were turned away."""
    taken: list[str] = []
    refused: list[str] = []
    for one in ids:
        status = submitted(platform, workflow, one)
        assert status in (HTTPStatus.ACCEPTED, HTTPStatus.CREATED, HTTPStatus.OK, 429), status
        (refused if status == HTTPStatus.TOO_MANY_REQUESTS else taken).append(one)
    return taken, refused


def submitted(platform: Platform, workflow: str, task_id: str) -> int:
    process = next(process for process in platform.processes if process.answers)
    assert process.url is not None
    body = {"workflow": workflow, "input": task_id, "id": task_id}
    return platform._exchange(process.url, "POST", "/v1/tasks", body)[0]


@failure(
    "more comes than can be done",
    of=Part.LOAD,
    seen="`429` with `Retry-After`, and a typed problem; nothing of what was turned away is there",
    heals="as what waits gets less, submissions are taken again",
    takes="until fewer than `backlog_limit` wait",
    within="60s",
    invariants=(1, 2, 3, 4, 5, 6, 12, 14, 16),
)
def test_when_more_comes_than_can_be_done_it_is_turned_away_and_all_that_was_taken_ends(
    platform: Platform, services: Services, watch: Watch, healing: Healing
):
    """SAS-21."""
    platform.serve(EVERYTHING, backlog_limit=str(BACKLOG), in_flight=str(IN_FLIGHT))
    services.hang("reserve")

    taken, refused = offered(platform, "pick_up", [f"o{number}" for number in range(FLOOD)])
    with healing():
        services.repair("reserve")
        for one in taken:
            platform.until(one, "processed")
    eventually(
        lambda: submitted(platform, "pick_up", "after"), lambda status: status < 300, what="room again"
    )
    platform.until("after", "processed")

    assert refused, "everybody was let in"
    assert len(taken) <= BACKLOG + IN_FLIGHT + 1
    watch.facts.rolled_back = set(refused)
    watch.facts.model = dict.fromkeys([*taken, "after"], "processed")


@failure(
    "a service is dead for minutes",
    of=Part.LOAD,
    seen=(
        "its breaker is open (`agents ls`); steps of its agent are `pending`, and no step of "
        "another waits for them"
    ),
    heals="the breaker lets a probe through now and then; once one succeeds, all that waited goes on",
    takes="until the next probe: `open_for`, doubled with each that fails, up to `open_for_max`",
    within="120s",
    invariants=(1, 2, 3, 4, 5, 6, 14, 16),
)
def test_when_a_service_is_dead_for_minutes_nobody_else_notices_and_all_that_waited_goes_on_afterwards(
    platform: Platform, services: Services, watch: Watch, healing: Healing
):
    """SAS-21, CB-2, CB-3, CB-7."""
    [process] = platform.serve(EVERYTHING, in_flight=str(IN_FLIGHT))
    early = [f"e{number}" for number in range(TIMED)]
    undisturbed = median(picked_up(platform, one) for one in early)
    services.fail("charge")

    stuck, refused = offered(platform, "deliver_through_an_outage", [f"d{n}" for n in range(IN_FLIGHT // 2)])
    eventually(lambda: breaker(platform), lambda state: state != "closed", what="an open breaker")
    waiting = "SELECT id FROM step JOIN task ON task.key = step.task_key WHERE step.key = 'charge:1'"
    eventually(
        lambda: watch.database.rows(waiting), lambda found: len(found) == len(stuck), what="all at the bank"
    )
    before, held_kib = stored(watch.database), rss_kib(process.pid)
    asked, over = len(services.asked("charge")), time.monotonic() + DEAD_SECONDS
    others: list[str] = []
    seconds: list[float] = []
    while time.monotonic() < over or len(others) < TIMED:
        others.append(f"p{len(others)}")
        seconds.append(picked_up(platform, others[-1]))
    probes = len(services.asked("charge")) - asked
    grown, grown_kib = stored(watch.database) - before, rss_kib(process.pid) - held_kib
    with healing():
        services.repair("charge")
        for one in stuck:
            platform.until(one, "processed")

    print(
        f"{len(others)} others, {median(seconds) * 1000:.0f} ms each, {undisturbed * 1000:.0f} ms before;"
        f" {probes} probes; {grown_kib:,} KiB more than before"
    )
    assert refused == []
    assert median(seconds) <= SLOWER_MAX * undisturbed + SLOWER_MAX_SECONDS, "others had to wait as well"
    assert grown_kib <= GROWTH_MAX_KIB
    # Each of the others is a task of one step; of the outage there is a line, however long it lasts.
    assert grown - Counter(task=len(others), step=len(others)) <= Counter(alert=1)
    # A probe at the end of each second, and each probe is one attempt of an agent.
    assert probes <= TRIES * (DEAD_SECONDS + 10), "it was left alone"
    assert sorted(one.key for one in services.effects("charge")) == sorted(f"{one}/charge:1" for one in stuck)
    watch.facts.model = dict.fromkeys([*early, *stuck, *others], "processed")


def picked_up(platform: Platform, task_id: str) -> float:
    """How many seconds a task takes that needs nothing of the service that is dead."""
    began = time.monotonic()
    offered(platform, "pick_up", [task_id])
    platform.until(task_id, "processed")
    return time.monotonic() - began


def stored(database: Database) -> Counter[str]:
    """How many rows there are of all that a store keeps for those who submit, and for those who watch."""
    tables = ("task", "step", "signal", "payload", "agent_request", "message", "told", "alert", "recovery")
    return Counter({name: database.rows(f"SELECT count(*) FROM {name}")[0][0] for name in tables})


def breaker(platform: Platform) -> Any:
    [bank] = [one for one in platform.get("/v1/agents")["items"] if one["name"] == "bank"]
    [instance] = bank["instances"]
    return instance["breaker"]


@failure(
    "an input kills every process that takes it",
    of=Part.LOAD,
    seen="the process dies again and again; then the task is in `error`, of type `Crashes`, with an alert",
    heals=(
        "its deaths are counted apart from failures; at `Recovery(crashes=…)` it is stopped, and "
        "the rest goes on"
    ),
    takes="`crashes` times a start and `lease` + `supervisor_period`",
    within="100s",
    invariants=(1, 2, 3, 4, 5, 13, 14, 16),
)
def test_when_an_input_kills_every_process_that_takes_it_it_is_stopped_and_the_rest_goes_on(
    platform: Platform, services: Services, watch: Watch, healing: Healing
):
    """VA-08, SB-05."""
    settings = platform.soon_found_dead
    platform.serve(EVERYTHING, **settings)
    services.die("charge", task_id="poison")
    good = [f"o{number}" for number in range(5)]

    with healing():
        platform.submit("deliver_at_risk", "poison")
        for one in good:
            again_if_dead(platform, settings)
            submitted_to_somebody(platform, one, settings)
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while (state := database_state(watch.database, "poison")) != "error":
            assert time.monotonic() < give_up_at, state
            again_if_dead(platform, settings)
        again_if_dead(platform, settings)
        for one in good:
            platform.until(one, "processed")

    task = platform.task("poison")
    assert task["error"]["type"] == "Crashes"
    assert len(services.asked("charge", "poison")) == CRASHES
    assert [alert["task_id"] for alert in platform.alerts()] == ["poison"]
    watch.facts.model = {"poison": "error", **dict.fromkeys(good, "processed")}


def again_if_dead(platform: Platform, settings: dict[str, str]) -> None:
    """As a platform would: who has died is started again."""
    if not any(process.running for process in platform.processes):
        platform.serve(EVERYTHING, **settings)
    time.sleep(0.02)


def submitted_to_somebody(platform: Platform, task_id: str, settings: dict[str, str]) -> None:
    while True:
        try:
            platform.submit("deliver", task_id)
        except (OSError, StopIteration):
            again_if_dead(platform, settings)
        else:
            return


def database_state(database: Database, task_id: str) -> Any:
    found = database.rows("SELECT state FROM task WHERE id = ?", task_id)
    return found[0][0] if found else None
