from __future__ import annotations

from datetime import UTC, datetime

from backstay.domain.stream import EventRecord
from backstay.ingest.streams.lanes import Held, Lanes

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


def held(offset: int, key: str | None, *, again: int | None = None) -> Held:
    record = EventRecord(
        partition=0, offset=offset, body=b"0", key=key, id=None, headers=None, enqueued_at=EPOCH
    )
    return Held(record, again)


def entered(*events: Held) -> Lanes:
    lanes = Lanes()
    for event in events:
        lanes.enter(event)
    return lanes


def begun(lanes: Lanes) -> list[Held]:
    found = []
    while (event := lanes.begin()) is not None:
        found.append(event)
    return found


def offsets(events: list[Held]) -> list[int]:
    return [one.record.offset for one in events]


def test_one_of_each_key_may_begin_and_all_that_have_none():
    lanes = entered(held(0, "a"), held(1, "a"), held(2, "b"), held(3, None), held(4, None), held(5, "b"))

    assert (lanes.ready, lanes.waiting) == (4, 6)
    assert offsets(begun(lanes)) == [0, 2, 3, 4]
    assert (lanes.ready, lanes.waiting) == (0, 2)


def test_the_next_of_a_key_begins_when_the_one_before_has_left():
    lanes = entered(held(0, "a"), held(1, "a"), held(2, "a"))
    [first] = begun(lanes)
    lanes.leave(first)
    [second] = begun(lanes)
    assert second.record.offset == 1
    lanes.leave(second)
    [third] = begun(lanes)
    lanes.leave(third)

    assert lanes.waiting == 0
    lanes.enter(held(3, "a"))
    assert offsets(begun(lanes)) == [3]


def test_what_is_beyond_what_was_begun_is_dropped_and_what_is_not_goes_on():
    lanes = entered(held(0, "a"), held(1, "a"), held(2, "b"), held(3, "c"), held(4, "a"), held(5, None))
    assert lanes.begin() == held(0, "a")
    assert lanes.begin() == held(2, "b")

    lanes.drop_beyond(2)

    assert begun(lanes) == []
    lanes.leave(held(0, "a"))
    assert offsets(begun(lanes)) == [1]
    lanes.leave(held(1, "a"))
    lanes.leave(held(2, "b"))
    assert lanes.waiting == 0


def test_what_was_to_be_tried_again_is_dropped_too():
    lanes = entered(held(0, "a", again=7), held(1, "a"))
    lanes.drop_beyond(1)

    assert offsets(begun(lanes)) == [1]
