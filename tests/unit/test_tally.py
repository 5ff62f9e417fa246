"""What is noted of a partition, and when it is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from backstay.domain.stream import EventRecord, Group, Holding
from backstay.domain.task import NewTask
from backstay.ingest.streams.tally import Tally
from backstay.store.groups import Start
from backstay.testing import ManualClock

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


def record(offset: int) -> EventRecord:
    return EventRecord(
        partition=3, offset=offset, body=b"0", key=None, id=None, headers=None, enqueued_at=EPOCH
    )


def start(offset: int) -> Start:
    return Start(NewTask(id=f"task-{offset}", workflow="w", version=1, input=b"0"), record(offset))


def tally(clock: ManualClock | None = None, *, checkpoint: int | None = None, every: int = 3) -> Tally:
    holding = Holding(group=Group("s", "g"), partition=3, epoch=1, checkpoint=checkpoint)
    return Tally(holding, every=every, after=timedelta(seconds=5), clock=clock or ManualClock())


def read(noted: Tally, *offsets: int) -> Tally:
    for offset in offsets:
        noted.mark.read(offset)
    return noted


def test_nothing_is_due_while_nothing_is_finished():
    noted = read(tally(), 0, 1)

    assert noted.due_in() is None
    assert noted.take() is None


def test_a_checkpoint_is_due_after_so_many_events_or_so_long_after_the_first():
    clock = ManualClock()
    noted = read(tally(clock), 0, 1, 2)
    noted.finished(0)
    assert noted.due_in() == 5.0
    clock.pass_time(timedelta(seconds=2))
    noted.finished(1)
    assert noted.due_in() == 3.0
    noted.finished(2)
    assert noted.due_in() == 0.0

    advance = noted.take()
    assert advance is not None
    assert advance.to == 3
    noted.done()
    assert (noted.due_in(), noted.is_open, noted.reached) == (None, False, 3)


def test_what_is_finished_beyond_the_low_water_mark_makes_no_checkpoint():
    noted = read(tally(checkpoint=0), 0, 1, 2, 3)
    for offset in (1, 2, 3):
        noted.finished(offset)
    assert noted.due_in() is None

    noted.finished(0)
    advance = noted.take()
    assert advance is not None
    assert advance.to == 4


def test_tasks_and_what_is_set_aside_are_due_at_once_with_the_mark_of_that_moment():
    noted = read(tally(), 0, 1, 2)
    noted.made(start(1))
    noted.finished(1)
    assert noted.due_in() == 0.0
    advance = noted.take()
    assert advance is not None
    assert ([one.event.offset for one in advance.starts], advance.to) == ([1], None)
    noted.done()

    noted.set_aside(record(0), "no good")
    noted.finished(0)
    advance = noted.take()
    assert advance is not None
    assert ([one.event.offset for one in advance.quarantined], advance.to) == ([0], 2)


def test_what_could_not_be_written_is_written_with_what_came_since():
    noted = read(tally(), 0, 1, 2)
    noted.made(start(0))
    noted.finished(0)
    noted.settled(7, 5)
    noted.take()
    noted.set_aside(record(1), "no good")
    noted.finished(1)
    assert noted.unwritten == 2
    noted.failed()
    assert noted.due_in() == 0.0

    advance = noted.take()
    assert advance is not None
    assert [one.event.offset for one in advance.starts] == [0]
    assert [one.event.offset for one in advance.quarantined] == [1]
    assert (advance.settled, advance.to) == ([7], 2)


def test_a_checkpoint_that_could_not_be_written_stays_due():
    noted = read(tally(every=1), 0)
    noted.finished(0)
    noted.take()
    noted.failed()

    assert noted.due_in() == 0.0
    assert noted.take() is not None


def test_who_follows_hears_of_everything():
    heard: list[str] = []
    noted = read(tally(), 0)
    noted.noted = lambda _: heard.append("noted")
    noted.written = lambda advance: heard.append(f"written up to {advance.to}")
    noted.finished(0)
    noted.take()
    noted.done()

    assert heard == ["noted", "written up to 1"]
