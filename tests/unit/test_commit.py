"""How transitions merge into rows, and which of them are refused."""

from __future__ import annotations

from backstay.domain.alert import AlertKind, of_task
from backstay.domain.lease import Owner
from backstay.domain.states import StepState, TaskState
from backstay.errors import LeaseLost
from backstay.store.base import Changes, Transition
from backstay.store.commit import Fences, Rows, judged_together, owners, task_keys
from backstay.testing.records import NOON, a_step, a_task, begun, done, let_go, new_task

ALICE, BOB = Owner("alice", 1), Owner("bob", 1)
TASK = a_task(TaskState.PROCESSING, locked_by="alice", lock_number=3)


def turn(owner: Owner = ALICE, *, task_key: int = 1, lock_number: int = 3, **changed: object) -> Transition:
    return Transition(owner=owner, task_key=task_key, lock_number=lock_number, at=NOON, **changed)  # type: ignore[arg-type]


def fences() -> Fences:
    return Fences({"alice": 1, "bob": 1}, {1: ("alice", 3), 2: ("alice", 3), 9: (None, 3)})


def test_the_holder_of_the_lock_writes():
    assert fences().refusal(turn()) is None


def test_what_is_no_longer_current_is_refused():
    refused = {
        "another's task": turn(BOB),
        "an older lock": turn(lock_number=2),
        "a later lock": turn(lock_number=4),
        "an instance declared dead": turn(Owner("alice", 2)),
        "an instance nobody knows": turn(Owner("carol", 1)),
        "a task nobody holds": turn(task_key=9),
        "a task that is gone": turn(task_key=77),
    }

    assert {why: type(fences().refusal(one)) for why, one in refused.items()} == dict.fromkeys(
        refused, LeaseLost
    )


def test_once_a_run_let_its_task_go_what_it_sends_after_that_is_refused_even_in_the_same_batch():
    batch = fences()

    assert batch.refusal(turn(task=let_go(TASK, TaskState.PROCESSED))) is None
    assert isinstance(batch.refusal(turn(steps=[a_step()])), LeaseLost)
    assert batch.refusal(turn(task_key=2)) is None, "another task is not concerned"


def test_a_batch_of_one_owner_is_judged_together():
    assert judged_together([turn(), turn(task_key=2, lock_number=5), turn(steps=[a_step()])]) == (
        ALICE,
        {1: 3, 2: 5},
    )


def test_what_must_be_judged_one_by_one_is_not_judged_together():
    ended = turn(task=let_go(TASK, TaskState.PROCESSED))

    assert judged_together([turn(), turn(BOB, task_key=2)]) is None, "two owners"
    assert judged_together([turn(lock_number=2), turn()]) is None, "two locks of one task"
    assert judged_together([ended, turn(steps=[a_step()])]) is None, "it goes on after it was let go of"
    assert judged_together([turn(steps=[a_step()]), ended]) is not None, "its end may come last"


def test_rows_are_plain_when_nothing_follows_from_them():
    ended = let_go(TASK, TaskState.PROCESSED)

    assert Rows([turn(steps=[begun(a_step(StepState.RUNNING)), done(a_step())], task=ended)]).plain
    for why, rare in {
        "a step in another form": turn(steps=[a_step()]),
        "a task that parks": turn(task=let_go(TASK, TaskState.WAITING)),
        "a parent to be woken": turn(task=let_go(TASK, TaskState.PROCESSED, parent_key=7)),
        "a child": turn(children=[new_task("c")]),
        "a signal": turn(consumed=[(1, "w:1")]),
        "a submitter to be told": turn(replies=True),
    }.items():
        assert not Rows([turn(task_key=2, task=ended), rare]).plain, why


def test_of_each_row_the_last_version_is_written():
    running, completed = a_step(StepState.RUNNING), a_step(StepState.COMPLETED)
    other = a_step(StepState.RUNNING, key="ship:1")
    ended = let_go(TASK, TaskState.PROCESSED)

    rows = Rows([turn(steps=[running], task=TASK), turn(steps=[completed, other], task=ended)])

    assert list(rows.steps.values()) == [completed, other]
    assert list(rows.tasks.values()) == [ended]


def test_children_and_consumed_signals_are_all_kept():
    children = [new_task("a"), new_task("b")]

    rows = Rows(
        [
            turn(children=children[:1], consumed=[(1, "w:1")]),
            turn(children=children[1:], consumed=[(2, "w:2")]),
        ]
    )

    assert rows.children == [(children[0], NOON), (children[1], NOON)]
    assert rows.consumed == [(1, 1, "w:1"), (1, 2, "w:2")]


def test_alerts_are_all_kept_with_the_instants_of_their_turns():
    alerts = [of_task(AlertKind.TASK_ERROR, "t", message=message) for message in "abc"]

    rows = Rows([turn(alerts=alerts[:2]), turn(alerts=alerts[2:])])

    assert rows.alerts == [(alert, NOON) for alert in alerts]


def test_listeners_are_told_of_settled_tasks_of_their_parents_and_of_what_can_be_claimed():
    child = let_go(a_task(TaskState.PROCESSING, key=5, parent_key=4), TaskState.PROCESSED)
    changes = Changes()

    Rows([turn(task_key=5, task=child)]).report(changes)

    assert (changes.settled, changes.touched, changes.claimable) == ([child], [4], True)


def test_a_turn_that_only_wrote_steps_is_nobodys_business():
    changes = Changes()

    Rows([turn(steps=[a_step()])]).report(changes)

    assert changes == Changes()


def test_a_batch_names_each_owner_and_task_once():
    posted = [(turn(), print), (turn(), print), (turn(BOB, task_key=2), print)]

    assert owners(posted) == {ALICE, BOB}
    assert task_keys(posted) == {1, 2}
