"""What is noted of events that become messages: it leaves in the order of the stream, with the position."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from backstay.domain.message import NewMessage
from backstay.domain.stream import EventRecord, Group, Holding
from backstay.ingest.streams.outbox import Outbox
from backstay.store.groups import Advance, Send
from backstay.testing import ManualClock

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


def record(offset: int) -> EventRecord:
    return EventRecord(
        partition=3, offset=offset, body=b"0", key=None, id=None, headers=None, enqueued_at=EPOCH
    )


def send(offset: int) -> Send:
    return Send(NewMessage(to="q", id=f"m-{offset}", body=b"0"), record(offset))


def outbox(*read: int, checkpoint: int | None = None) -> Outbox:
    holding = Holding(group=Group("s", "g"), partition=3, epoch=1, checkpoint=checkpoint)
    noted = Outbox(holding, every=1000, after=timedelta(seconds=5), clock=ManualClock())
    for offset in read:
        noted.mark.read(offset)
    return noted


def finish(noted: Outbox, *offsets: int) -> None:
    for offset in offsets:
        noted.made(send(offset))
        noted.finished(offset)


def taken(noted: Outbox) -> Advance:
    advance = noted.take()
    assert advance is not None
    return advance


def offsets(advance: Advance) -> list[int]:
    return [one.event.offset for one in advance.messages]


def test_a_message_waits_for_the_events_ahead_of_its_own():
    noted = outbox(0, 1, 2)
    finish(noted, 2, 1)
    assert (noted.due_in(), noted.take()) == (None, None)

    finish(noted, 0)

    assert noted.due_in() == 0.0
    advance = taken(noted)
    assert (offsets(advance), advance.to) == ([0, 1, 2], 3)


def test_what_is_beyond_the_low_water_mark_stays():
    noted = outbox(0, 1, 2, 3)
    finish(noted, 3, 0)
    noted.set_aside(record(2), "no good")
    noted.finished(2)

    advance = taken(noted)
    assert (offsets(advance), advance.quarantined, advance.to) == ([0], [], 1)
    noted.done()
    finish(noted, 1)

    advance = taken(noted)
    assert (offsets(advance), advance.to) == ([1, 3], 4)
    assert [one.event.offset for one in advance.quarantined] == [2]


def test_where_there_is_no_room_for_all_fewer_leave_those_that_come_first():
    noted = outbox(*range(8))
    finish(noted, *range(8))
    assert len(offsets(taken(noted))) == 8
    noted.failed()

    assert noted.lessened()
    advance = taken(noted)
    assert (offsets(advance), advance.to) == ([0, 1, 2, 3], 4)
    noted.done()

    assert noted.due_in() == 0.0
    advance = taken(noted)
    assert (offsets(advance), advance.to) == ([4, 5, 6, 7], 8)


def test_one_that_finds_no_room_cannot_be_made_less():
    noted = outbox(0, 1)
    finish(noted, 0, 1)
    taken(noted)
    noted.failed()
    assert noted.lessened()
    assert offsets(taken(noted)) == [0]
    noted.failed()

    assert not noted.lessened()
    assert noted.unwritten == 2
    advance = taken(noted)
    assert (offsets(advance), advance.to) == ([0], 1)


def test_once_all_has_left_nothing_is_held_back_any_more():
    noted = outbox(*range(20))
    finish(noted, 0, 1)
    taken(noted)
    noted.failed()
    noted.lessened()
    for _ in range(2):
        taken(noted)
        noted.done()

    finish(noted, *range(2, 20))
    assert len(offsets(taken(noted))) == 18


def test_what_could_not_be_written_is_written_in_its_order_with_what_came_since():
    noted = outbox(0, 1, 2)
    finish(noted, 0, 1)
    taken(noted)
    finish(noted, 2)
    assert noted.unwritten == 3
    noted.failed()

    advance = taken(noted)
    assert (offsets(advance), advance.to) == ([0, 1, 2], 3)


def test_an_event_that_leaves_the_quarantine_does_so_with_its_message_or_with_why_it_comes_back():
    noted = outbox(10, 11, checkpoint=10)
    for number, offset in enumerate((4, 5, 6)):
        noted.made(send(offset))
        noted.settled(number, offset)
    noted.set_aside(record(7), "again no good")
    noted.settled(3, 7)
    finish(noted, 10, 11)
    taken(noted)
    noted.failed()
    noted.lessened()  # 10 entries: 5 at a time, but what belongs to one event stays together.

    advance = taken(noted)
    assert (offsets(advance), advance.settled, advance.to) == ([4, 5, 6], [0, 1, 2], None)
    noted.done()
    advance = taken(noted)
    assert (offsets(advance), advance.settled, advance.to) == ([10, 11], [3], 12)
    assert [one.event.offset for one in advance.quarantined] == [7]
