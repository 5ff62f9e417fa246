"""A thousand orders in processes that are killed again and again, whenever chance wants it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import pytest

from tests.chaos.account import Account
from tests.chaos.evidence import Facts
from tests.chaos.matrix import FULL, SEED, checked
from tests.chaos.workload import ends_of, place_and_finish, started
from tests.support.databases import Database

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

ROUNDS = 20 if FULL else 1

ORDERS = 1_000
REFUSED_SHARE = 0.03
#: Seconds from one kill to the next. The shortest-lived processes die before they have opened their store.
LIFE = (0.02, 0.8)
#: After so many kills they are left alone: a machine too slow to get anywhere in between is not the question.
KILLS_MAX = 40


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize(
    "processes",
    [
        pytest.param(1, id="one process that is restarted"),
        pytest.param(2, id="two processes that take over from each other"),
    ],
)
def test_orders_whose_processes_are_killed_at_random_all_end_and_no_effect_is_lost_or_doubled(
    tmp_path: Path, database: Database, processes: int, number: int
):
    seed = SEED + number
    print(f"seed {seed} (again with BACKSTAY_TEST_SEED={seed})")
    chance = Random(seed)
    refused = [chance.random() < REFUSED_SHARE for _ in range(ORDERS)]
    # However busy the machine is, neither of two may take the other for dead: both would do the same work.
    account = Account(tmp_path, database, refused, lease="1s" if processes == 1 else "5s")
    began = time.monotonic()

    children = [started(place_and_finish, account.site, refused) for _ in range(processes)]
    while account.kills < KILLS_MAX and all(child.is_alive() for child in children):
        victim = chance.randrange(processes)
        children[victim].join(chance.uniform(*LIFE))
        if killed(children[victim], account):
            children[victim] = started(place_and_finish, account.site, refused)
    for child in children:
        child.join()

    print(f"{account.settle()} · {time.monotonic() - began:.1f} s")
    # Nobody writes a history: the first of them are killed over a store that has no tables yet.
    checked(database, Facts(model=ends_of(refused)), claimed=(5, 7, 14, 16), with_history=False)
    assert [child.exitcode for child in children] == [0] * processes
    assert account.kills > 0, "nobody was killed"


def killed(child: BaseProcess, account: Account) -> bool:
    """Kill the child, unless it has come to its end; what it leaves is noted before others take it up."""
    assert child.pid is not None
    with suppress(ProcessLookupError):
        os.kill(child.pid, signal.SIGSTOP)
    if not child.is_alive():
        return False
    try:
        left = account.standing()
    finally:
        child.kill()
        child.join()
    # While a process opens or closes a store it may have it to itself; then it has nothing in flight.
    account.note_kill(left or account.standing())
    return True
