"""How what changed is told to other processes: in notices that PostgreSQL can carry."""

from __future__ import annotations

import uuid
from itertools import chain

import msgspec

from backstay.domain.states import TaskState
from backstay.domain.task import ID_LENGTH_MAX
from backstay.store.base import Changes
from backstay.store.postgres.news import Notice, notices
from backstay.testing.records import a_task

# As long as the name of a lane gets.
LANE = f"{uuid.uuid4().hex}/submissions-{uuid.uuid4().hex[:8]}"

# PostgreSQL refuses to carry more, and with the notice the whole transaction.
TOO_LONG_BYTES = 8_000


def read(told: list[str]) -> list[Notice]:
    return [msgspec.json.decode(notice, type=Notice) for notice in told]


def settled(*ids: str) -> Changes:
    return Changes(settled=[a_task(TaskState.PROCESSED, id=one) for one in ids], touched=[])


def test_nothing_to_tell_is_no_notice():
    assert notices(Changes(settled=[], touched=[]), LANE) == []


def test_what_only_this_process_can_see_is_no_notice():
    assert notices(Changes(settled=[], touched=[], ended=["t"], foreign=True), LANE) == []


def test_each_notice_says_who_wrote():
    changes = Changes(settled=[a_task(TaskState.PROCESSED)], touched=[7], claimable=True)

    assert {notice.by for notice in read(notices(changes, LANE))} == {LANE}


def test_that_something_can_be_claimed_is_told_once():
    told = notices(Changes(settled=[], touched=[], claimable=True), LANE)

    assert read(told) == [Notice(LANE, claimable=True)]


def test_that_something_is_held_back_or_no_longer_is_told_with_what_can_be_claimed_therefore():
    held_back = notices(Changes(settled=[], touched=[], controls=True), LANE)
    goes_on = notices(Changes(settled=[], touched=[], controls=True, claimable=True), LANE)

    assert read(held_back) == [Notice(LANE, controls=True)]
    assert read(goes_on) == [Notice(LANE, controls=True, claimable=True)]


def test_queues_are_told_by_their_names_each_once_and_few_at_a_time():
    names = [f"{number:0{ID_LENGTH_MAX}}" for number in range(100)]
    told = notices(Changes(settled=[], touched=[], queues=[*names, *names]), LANE)

    assert sorted(chain.from_iterable(notice.queues for notice in read(told))) == names
    assert max(len(notice.encode()) for notice in told) < TOO_LONG_BYTES


def test_settled_tasks_are_told_by_their_ids_and_touched_ones_by_their_keys():
    changes = Changes(settled=settled("a", "b").settled, touched=[7, 8])

    assert read(notices(changes, LANE)) == [Notice(LANE, settled=["a", "b"]), Notice(LANE, touched=[7, 8])]


def test_what_is_not_said_takes_no_room():
    assert notices(Changes(settled=[], touched=[7]), "me") == ['{"by":"me","touched":[7]}']


def test_no_notice_is_too_long_for_postgresql_however_many_ids_of_full_length_settled():
    ids = [f"{number:0{ID_LENGTH_MAX}}" for number in range(1_000)]

    told = notices(settled(*ids), LANE)

    assert max(len(notice.encode()) for notice in told) < TOO_LONG_BYTES
    assert list(chain(*(notice.settled for notice in read(told)))) == ids


def test_no_notice_is_too_long_for_postgresql_however_many_large_keys_were_touched():
    keys = [2**63 - 1 - number for number in range(10_000)]

    told = notices(Changes(settled=[], touched=keys), LANE)

    assert max(len(notice.encode()) for notice in told) < TOO_LONG_BYTES
    assert list(chain(*(notice.touched for notice in read(told)))) == keys
