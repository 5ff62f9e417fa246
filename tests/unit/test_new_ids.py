"""Ids that are made for tasks that come without one."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from random import Random

from backstay.domain.ids import new_id
from backstay.domain.task import check_id

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_an_id_is_a_uuid_of_version_7_and_says_when_it_was_made():
    made = new_id(NOON, Random(1).getrandbits)

    parsed = uuid.UUID(made)
    assert (str(parsed), parsed.version, parsed.variant) == (made, 7, uuid.RFC_4122)
    assert parsed.int >> 80 == int(NOON.timestamp() * 1000)
    assert check_id(made) == made


def test_later_ids_come_after_earlier_ones():
    bits = Random(2).getrandbits
    ids = [new_id(NOON + timedelta(milliseconds=number), bits) for number in range(100)]

    assert ids == sorted(ids)


def test_ids_of_the_same_instant_differ():
    bits = Random(3).getrandbits

    assert len({new_id(NOON, bits) for _ in range(10_000)}) == 10_000
