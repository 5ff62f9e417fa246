"""What a batch leaves for later, because another transaction holds on to a task."""

from __future__ import annotations

from backstay.domain.lease import Owner
from backstay.domain.states import TaskState
from backstay.store.base import Transition
from backstay.store.postgres.batch import Batch
from backstay.store.postgres.messages import Messages
from backstay.store.postgres.statuses import Statuses
from backstay.testing.records import NOON, a_step, a_task, let_go

ALICE = Owner("alice", 1)
STATUSES = Statuses(Messages(schema="backstay", judged=lambda now: now))


def turn(task_key: int, **changed: object) -> Transition:
    return Transition(owner=ALICE, task_key=task_key, lock_number=1, at=NOON, **changed)  # type: ignore[arg-type]


def ending(task_key: int, *, parent: int | None = None, state: TaskState = TaskState.PROCESSED) -> Transition:
    running = a_task(TaskState.PROCESSING, key=task_key, parent_key=parent)
    return turn(task_key, task=let_go(running, state))


def parted(*transitions: Transition, held: set[int]) -> tuple[list[Transition], list[Transition]]:
    """What a batch goes on with, and what it leaves, while the tasks ``held`` are another's."""
    batch = Batch([(one, print) for one in transitions], STATUSES)
    batch._set_aside(held)
    return [one for (one, _), _ in batch.judged], [one for one, _ in batch.left]


def test_while_nobody_holds_anything_all_are_written_in_order():
    first, second, third = turn(1), turn(2), turn(1, steps=[a_step()])

    assert parted(first, second, third, held=set()) == ([first, second, third], [])


def test_what_is_held_is_left_with_all_that_follows_on_the_same_task():
    first, other, second = turn(1), turn(2), turn(1, steps=[a_step()])

    assert parted(first, other, second, held={1}) == ([other], [first, second])


def test_a_task_that_ends_is_left_while_its_parent_is_held():
    child, other = ending(5, parent=4), ending(6, parent=3)

    assert parted(child, other, held={4}) == ([other], [child])


def test_a_task_that_does_not_end_needs_nothing_of_its_parent():
    step, wait = turn(5, steps=[a_step()]), ending(5, parent=4, state=TaskState.WAITING)

    assert parted(step, wait, held={4}) == ([step, wait], [])


def test_what_came_before_an_ending_that_is_left_is_written_and_what_comes_after_it_is_not():
    before, end, after = turn(5), ending(5, parent=4), turn(5, steps=[a_step()])

    assert parted(before, end, after, held={4}) == ([before], [end, after])


def test_who_looks_again_parts_everything_anew():
    first, other = turn(1), turn(2)
    batch = Batch([(first, print), (other, print)], STATUSES)

    batch._set_aside({1})
    batch._set_aside({2})

    assert [one for (one, _), _ in batch.judged] == [first]
    assert [one for one, _ in batch.left] == [other]
