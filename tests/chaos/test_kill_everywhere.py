"""The process is killed at every write boundary: before and after each commit, one run per boundary."""

from __future__ import annotations

import signal
from collections import deque
from pathlib import Path

import pytest

from tests.chaos.account import Account
from tests.chaos.evidence import Facts
from tests.chaos.history import lay_history
from tests.chaos.matrix import Healing, Part, Watch, checked, failure
from tests.chaos.workload import (
    FORWARD,
    UNDOABLE,
    Boundaries,
    ends_of,
    finish_each,
    place_and_finish_unless_killed,
    run,
)
from tests.support.databases import Database

pytestmark = pytest.mark.chaos

KILLED = -signal.SIGKILL

#: Parallel steps end in this order or that, so a run may not come by the boundary that it was to end at.
TRIES_MAX = 8


@failure(
    "a scheduler is killed before or after any record",
    of=Part.SCHEDULERS,
    seen="the task stands where the last commit left it; a step that was at work is attempted again",
    heals="the supervisor frees the task; the workflow replays what is recorded and goes on from there",
    takes="`lease` + `supervisor_period` for each death; on SQLite one period",
    within="100s",
    invariants=(1, 2, 5, 13, 14, 16),
)
@pytest.mark.parametrize(
    "refused",
    [pytest.param(False, id="a task that is processed"), pytest.param(True, id="a task that is undone")],
)
def test_when_a_scheduler_is_killed_before_or_after_any_record_its_task_goes_on_from_where_it_stood(
    tmp_path: Path, database: Database, refused: bool, watch: Watch, healing: Healing
):
    accounts = killed_at_each_boundary(tmp_path, database, refused=refused)

    with healing():
        assert run(finish_each, [account.site for account in accounts], [refused]) == 0

    watch.others = [(account.database, Facts(model=ends_of([refused]))) for account in accounts]

    for account in accounts:
        print(f"{account.site.folder.name}: {account.settle()}")
    found = set().union(*(account.found for account in accounts))
    assert found >= every_record(refused=refused), "some record was never the last one before a kill"


def killed_at_each_boundary(folder: Path, database: Database, *, refused: bool) -> list[Account]:
    """One run for each boundary that some run came by; the first comes to its end and finds most of them."""
    accounts: list[Account] = []
    known: set[str] = set()
    tries: deque[tuple[str | None, int]] = deque([(None, 1)])
    number = 0
    while tries:
        boundary, count = tries.popleft()
        account = Account(folder / f"run-{number}", database.another(), [refused])
        number += 1
        account.site.folder.mkdir()
        lay_history(account.database)
        if run(place_and_finish_unless_killed, account.site, [refused], boundary) == KILLED:
            account.note_kill(account.standing())
            accounts.append(account)
        elif boundary is not None and count < TRIES_MAX:
            tries.append((boundary, count + 1))
        found = [name for name in Boundaries.passed_in(account.site.folder) if name not in known]
        known |= set(found)
        tries += [(name, 1) for name in found]
    print(f"{len(accounts)} of {len(known)} boundaries in {number} runs")
    return accounts


def every_record(*, refused: bool) -> set[tuple[str, str]]:
    """The step and the state of each record that the order leaves on its way."""
    forward = [(key, state) for key in FORWARD for state in ("running", "completed")]
    back = [(key, state) for key in UNDOABLE for state in ("running", "completed", "undoing", "undone")]
    failure = [("charge:1", "running"), ("charge:1", "failed")]
    return {(f"order-0/{key}", state) for key, state in (back + failure if refused else forward)}


def test_orders_whose_process_is_killed_in_each_of_its_lives_one_boundary_later_all_end(
    tmp_path: Path, database: Database
):
    refused = [False, True, False]
    account = Account(tmp_path, database, refused)

    while run(place_and_finish_unless_killed, account.site, refused, account.kills + 1) == KILLED:
        account.note_kill(account.standing())

    print(account.settle())
    checked(account.database, Facts(model=ends_of(refused)), claimed=(5, 7, 14, 16), with_history=False)
    assert account.kills > 6
