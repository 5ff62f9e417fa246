"""Which status follows from which change of a task."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from backstay.domain.states import TASK_ARROWS, TaskState
from backstay.domain.status import (
    ENDINGS,
    Correspondent,
    Destination,
    Notice,
    Status,
    changed_by_operator,
    checked_reply_to,
    destination,
    first_notice,
    written_by_run,
)
from backstay.errors import InvalidInput
from backstay.testing.records import NOON, a_task, new_task


def known(**fields: Any) -> Correspondent:
    common = {"key": 1, "id": "t", "workflow": "ship", "reply_to": "queue:desk"}
    return Correspondent(
        **{**common, "state": TaskState.PROCESSING, "status": Status.RECEIVED, "sequence": 1, **fields}
    )


def told(notices: list[Notice]) -> list[tuple[str, int]]:
    return [(notice.status, notice.sequence) for notice in notices]


@pytest.mark.parametrize("last", [one for one in Status if one is not Status.STARTED])
def test_a_run_that_goes_forward_has_started_unless_that_was_the_last_thing_said(last: Status):
    assert told(written_by_run(known(status=last, sequence=6), None, at=NOON)) == [("started", 7)]
    assert written_by_run(known(status=Status.STARTED), None, at=NOON) == []


@pytest.mark.parametrize("last", [*Status])
def test_an_undo_never_starts(last: Status):
    assert written_by_run(known(state=TaskState.UNDOING, status=last), None, at=NOON) == []


@pytest.mark.parametrize(("state", "last"), [*itertools.product(TaskState, Status)])
def test_every_write_of_a_run_is_told_by_the_state_that_it_leaves(state: TaskState, last: Status):
    after = written_by_run(known(status=last), a_task(state), at=NOON)
    statuses = [notice.status for notice in after]

    assert statuses.count(Status.STARTED) == (last is not Status.STARTED)
    assert [one for one in statuses if one is not Status.STARTED] == [
        ENDINGS[one] for one in [state] if one in ENDINGS
    ]
    assert [notice.sequence for notice in after] == list(range(2, 2 + len(after)))


@pytest.mark.parametrize(("source", "target"), [*itertools.product(TaskState, TaskState)])
def test_an_operator_tells_of_ends_and_of_nothing_else(source: TaskState, target: TaskState):
    notices = changed_by_operator(known(state=source), a_task(target))

    expected = [(ENDINGS[target], 2)] if target in ENDINGS and target is not source else []
    assert told(notices) == expected


def test_every_state_that_a_task_may_rest_in_for_good_is_told():
    at_rest = {state for state, arrows in TASK_ARROWS.items() if not arrows}

    assert at_rest <= set(ENDINGS)


def test_a_message_says_what_became_of_the_task_and_only_that():
    failed = a_task(TaskState.ERROR, output=b"1")
    [_, notice] = written_by_run(known(), failed, at=NOON)

    assert failed.error is not None
    assert msgspec.json.decode(notice.message.body) == {
        "task_id": "t",
        "workflow": "ship",
        "status": "failed",
        "sequence": 3,
        "at": failed.updated_at.isoformat().replace("+00:00", "Z"),
        "error": msgspec.to_builtins(failed.error),
    }


def test_an_output_that_is_null_is_told():
    [_, notice] = written_by_run(known(), a_task(TaskState.PROCESSED, output=b"null"), at=NOON)

    body = msgspec.json.decode(notice.message.body)
    assert body["output"] is None
    assert "error" not in body


def test_a_cancelled_task_says_so_even_if_nothing_went_wrong():
    pending = known(state=TaskState.PENDING)
    [notice] = changed_by_operator(pending, a_task(TaskState.CANCELLED, error=None))

    assert msgspec.json.decode(notice.message.body)["error"]["type"] == "Cancelled"


def test_the_first_notice_is_that_it_was_received():
    notice = first_notice(7, new_task("t", reply_to="topic:news"), NOON)

    assert (notice.key, notice.sequence, notice.message.id) == (7, 1, "t:received:1")
    assert (notice.message.to, notice.message.topic) == ("news", True)


@pytest.mark.parametrize(
    ("reply_to", "leads_to"),
    [("queue:desk", Destination("desk", topic=False)), ("topic:a:b", Destination("a:b", topic=True))],
)
def test_a_reply_to_leads_to_a_queue_or_a_topic(reply_to: str, leads_to: Destination):
    assert destination(checked_reply_to(reply_to)) == leads_to


@pytest.mark.parametrize("reply_to", ["", "desk", "queue:", "queue:a b", "QUEUE:desk", "queue", 5, None])
def test_anything_else_is_refused(reply_to: object):
    with pytest.raises(InvalidInput, match="reply_to"):
        checked_reply_to(reply_to)
