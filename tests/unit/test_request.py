"""The form of requests and replies between processes."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from backstay.domain.instants import micros
from backstay.domain.request import (
    BrokenOff,
    Completed,
    Deferred,
    Failed,
    Lost,
    Reference,
    Reply,
    Request,
    RequestStanding,
    reply_document,
    reply_of,
    request_document,
    request_of,
)
from backstay.domain.states import StepState
from backstay.domain.step import Failure, Outcome
from backstay.testing.records import BROKEN, NOON, a_step

REQUEST = Request(
    task_id="order-17",
    step="charge:1",
    agent="bank",
    operation="charge",
    attempt=2,
    input=b'{"euros": 30}',
    complete_by=micros(NOON),
    remaining_seconds=5.0,
    traceparent="00-ab-cd-01",
    task_key=7,
)
UNDO = Request(
    task_id="order-17",
    step="charge:1",
    agent="bank",
    operation="charge",
    attempt=1,
    input=b"30",
    complete_by=micros(NOON),
    remaining_seconds=5.0,
    undo=True,
    outcome=Outcome.COMPLETED,
    result=b'"receipt"',
    task_key=7,
)
CURRENT = Reference(7, "charge:1", False, 1)


def test_a_request_is_one_object_of_json_that_any_language_can_read():
    assert json.loads(request_document(REQUEST)) == {
        "task_id": "order-17",
        "step": "charge:1",
        "agent": "bank",
        "operation": "charge",
        "attempt": 2,
        "undo": False,
        "idempotency_key": "order-17/charge:1",
        "input": {"euros": 30},
        "complete_by": "2030-01-01T12:00:00Z",
        "remaining_seconds": 5.0,
        "traceparent": "00-ab-cd-01",
        "outcome": None,
        "result": None,
    }


@pytest.mark.parametrize("request_", [REQUEST, UNDO])
def test_a_request_arrives_as_it_was_sent_with_the_time_that_remains(request_: Request):
    arrived = request_of(request_document(request_), task_key=7, remaining_seconds=60.0)

    assert arrived == request_


def test_time_on_the_way_is_not_given_back():
    assert request_of(request_document(REQUEST), task_key=7, remaining_seconds=1.5).remaining_seconds == 1.5


@pytest.mark.parametrize(
    "reply",
    [
        Completed(b'{"receipt":4}'),
        Failed(BROKEN, unsure=True, retry_after=timedelta(seconds=1.5)),
        Failed(Failure("Declined", "no money", "charge:1", permanent=True), unsure=False),
        Deferred(BROKEN, unsure=False),
    ],
)
def test_a_reply_arrives_as_it_was_given(reply: Reply):
    assert reply_of(reply_document(reply)) == reply


@pytest.mark.parametrize("text", [b"", b"{}", b'{"type": "perhaps"}', b'{"type": "completed"}', b"[1"])
def test_a_reply_that_cannot_be_read_is_a_failure_of_unknown_effect(text: bytes):
    reply = reply_of(text)

    assert isinstance(reply, Failed)
    assert reply.error.type == "InvalidReply"
    assert reply.unsure


@pytest.mark.parametrize(
    ("state", "fields", "expected"),
    [
        (StepState.RUNNING, {"attempt": 1}, True),
        (StepState.RUNNING, {"attempt": 2}, False),
        (StepState.PENDING, {"attempt": 1}, False),
        (StepState.COMPLETED, {"attempt": 1}, False),
        (StepState.UNDOING, {"attempt": 1, "undo_attempt": 1}, False),
    ],
)
def test_a_request_is_current_while_its_very_attempt_runs(state: StepState, fields, expected: bool):
    assert CURRENT.is_current(a_step(state, **fields)) is expected


def test_the_request_of_an_undo_is_current_while_that_runs():
    undo = Reference(7, "charge:1", True, 2)

    assert undo.is_current(a_step(StepState.UNDOING, undo_attempt=2))
    assert not undo.is_current(a_step(StepState.UNDOING, undo_attempt=3))
    assert not undo.is_current(a_step(StepState.RUNNING, attempt=2))


@pytest.mark.parametrize(
    ("fields", "answer", "live"),
    [
        ({}, None, True),
        ({"claimed_by": "host"}, None, True),
        ({"claimed_by": "host", "withdrawn": True}, None, False),
        ({"claimed_by": "host", "broken_off": BrokenOff.DIED}, Lost(crashed=True), False),
        ({"claimed_by": "host", "broken_off": BrokenOff.STOPPED}, Lost(crashed=False), False),
        ({"claimed_by": "host", "reply": reply_document(Completed(b"7"))}, Completed(b"7"), True),
        ({"complete_by": NOON}, None, False),
    ],
)
def test_how_a_request_stands_says_what_it_came_to_and_whether_a_reply_may_still_come(fields, answer, live):
    complete_by = NOON + timedelta(seconds=1)
    standing = RequestStanding(**{"reference": CURRENT, "complete_by": complete_by, **fields})

    assert standing.answer() == answer
    assert standing.is_live(NOON) is live
