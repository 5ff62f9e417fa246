"""Steps on a line of time."""

from __future__ import annotations

from datetime import timedelta

from backstay.console.timeline import ROWS_MAX, timeline
from backstay.domain.states import StepState, TaskState
from backstay.domain.step import StepKind, UndoKind
from backstay.testing.records import NOON, a_step, a_task, a_wait

SECOND = timedelta(seconds=1)


def test_bars_lie_where_their_steps_lay_in_the_time_of_the_task():
    first = a_step(key="a:1", started_at=NOON, ended_at=NOON + SECOND)
    second = a_step(key="b:1", started_at=NOON + SECOND, ended_at=NOON + 4 * SECOND)
    task = a_task(TaskState.PROCESSED, created_at=NOON, updated_at=NOON + 4 * SECOND)

    line = timeline(task, [first, second], now=NOON + timedelta(days=1))

    assert [(row.bar.left, row.bar.width) for row in line.rows if row.bar] == [(0, 25), (25, 75)]
    assert [row.length for row in line.rows] == ["1.0s", "3.0s"]
    assert line.now is None, "a task that has settled is not where now is"
    assert [tick.text for tick in line.ticks] == ["+0ms", "+1.0s", "+2.0s", "+3.0s", "+4.0s"]


def test_a_step_at_work_reaches_until_now_and_a_mark_says_until_when_it_may():
    running = a_step(
        StepState.RUNNING, key="a:1", started_at=NOON, ended_at=None, complete_by=NOON + SECOND, attempt=3
    )
    task = a_task(TaskState.PROCESSING, created_at=NOON)

    [row] = timeline(task, [running], now=NOON + 2 * SECOND).rows

    assert row.bar is not None
    assert (row.bar.left, row.bar.width) == (0, 100)
    assert row.complete_by == 50
    assert row.tries == "attempt 3"


def test_what_takes_no_time_can_still_be_seen_and_nothing_reaches_beyond_the_line():
    blink = a_step(key="a:1", started_at=NOON + timedelta(hours=1), ended_at=NOON + timedelta(hours=1))
    task = a_task(TaskState.PROCESSED, created_at=NOON, updated_at=NOON + timedelta(hours=1))

    [row] = timeline(task, [blink], now=NOON).rows

    assert row.bar is not None
    assert row.bar.width > 0
    assert row.bar.left + row.bar.width <= 100


def test_undone_steps_are_numbered_newest_first():
    steps = [
        a_step(StepState.UNDONE, key="a:1", undo=UndoKind.AUTOMATIC, position=1),
        a_step(StepState.COMPLETED, key="b:1", position=2),
        a_step(StepState.UNDOING, key="c:1", undo=UndoKind.MANUAL, position=3),
    ]

    line = timeline(a_task(TaskState.UNDOING), steps, now=NOON)

    assert [(row.key, row.undo, row.undo_by_hand) for row in line.rows] == [
        ("a:1", 2, False),
        ("b:1", None, False),
        ("c:1", 1, True),
    ]


def test_waits_are_drawn_and_values_are_not():
    steps = [a_wait(StepKind.SLEEP, "sleep:1"), a_wait(StepKind.VALUE, "now:1")]

    assert [row.kind for row in timeline(a_task(), steps, now=NOON).rows] == ["sleep"]


def test_of_a_long_journal_the_first_steps_are_drawn_and_the_others_counted():
    steps = [a_step(key=f"a:{number}") for number in range(ROWS_MAX + 5)]

    line = timeline(a_task(), steps, now=NOON)

    assert (len(line.rows), line.left_out) == (ROWS_MAX, 5)
