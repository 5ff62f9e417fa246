"""Which error is which problem."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus

import msgspec
import pytest

from backstay import errors
from backstay.web import problems
from backstay.web.problems import KINDS, MEDIA_TYPE, Kind, Refused, as_refusal, kind_of, mistake, response_of

#: No request should meet these: they are raised before there is a server, or inside a workflow.
NEVER_ASKED_FOR = {errors.BackstayError, errors.StoreTooNew, errors.StepFailed, errors.TaskFailed}

STATUSES = {
    errors.InvalidRequest: 422,
    errors.InvalidId: 422,
    errors.InvalidInput: 422,
    errors.NotJson: 400,
    errors.PayloadTooLarge: 413,
    errors.UnknownWorkflow: 404,
    errors.UnknownTask: 404,
    errors.UnknownStep: 404,
    errors.UnknownAlert: 404,
    errors.UnknownToken: 404,
    errors.UnknownAgent: 404,
    errors.Conflict: 409,
    errors.IdConflict: 409,
    errors.IllegalMove: 409,
    errors.LeaseLost: 409,
    errors.JournalMismatch: 409,
    errors.Unavailable: 503,
    errors.StoreUnavailable: 503,
    errors.StoreFull: 503,
    errors.Closed: 503,
    errors.Overloaded: 429,
}


def every_error() -> list[type[errors.BackstayError]]:
    found = [one for one in vars(errors).values() if isinstance(one, type)]
    return [one for one in found if issubclass(one, errors.BackstayError)]


@pytest.mark.parametrize("error", every_error())
def test_every_error_is_a_problem_or_a_mistake_of_ours(error: type[errors.BackstayError]):
    kind = kind_of(error)

    assert (kind is None) is (error in NEVER_ASKED_FOR)
    if kind is not None and error in STATUSES:
        assert kind.status == STATUSES[error]


def test_a_slug_stands_for_one_kind():
    kinds = {kind for kind in vars(problems).values() if isinstance(kind, Kind)} | set(KINDS.values())

    assert len({kind.slug for kind in kinds}) == len(kinds)
    assert all(kind.type == f"urn:backstay:problem:{kind.slug}" for kind in kinds)


def test_a_problem_says_what_the_error_says():
    refusal = as_refusal(errors.UnknownTask("t"))
    assert refusal is not None

    response = response_of(refusal)

    assert (response.status_code, response.media_type) == (404, MEDIA_TYPE)
    assert msgspec.json.decode(response.body) == {
        "type": "urn:backstay:problem:unknown-task",
        "title": "There is no such task",
        "status": 404,
        "detail": str(errors.UnknownTask("t")),
    }


def test_an_illegal_move_names_the_state():
    refusal = as_refusal(errors.IllegalMove("task t", source="error", target="processed"))
    assert refusal is not None

    assert msgspec.json.decode(response_of(refusal).body)["state"] == "error"


def test_who_is_to_come_back_is_told_when():
    overloaded = errors.Overloaded(waiting=2, limit=1, retry_after=timedelta(seconds=1.2))

    assert _retry_after(overloaded) == "2"
    assert _retry_after(errors.StoreUnavailable("away")) == "1"
    assert _retry_after(errors.UnknownTask("t")) is None


def _retry_after(error: Exception) -> str | None:
    refusal = as_refusal(error)
    assert refusal is not None
    return response_of(refusal).headers.get("Retry-After")


def test_of_a_mistake_of_ours_nothing_is_told():
    assert as_refusal(RuntimeError("secret")) is None
    assert as_refusal(errors.StoreTooNew(found=2, known=1)) is None
    assert mistake().kind.status is HTTPStatus.INTERNAL_SERVER_ERROR


def test_a_refusal_is_told_as_it_is():
    refused = Refused(problems.FORBIDDEN, "no", headers={"X": "y"})

    assert as_refusal(refused) is refused
    assert response_of(refused).headers["X"] == "y"


def test_a_detail_quotes_no_megabytes():
    detail = msgspec.json.decode(response_of(Refused(problems.INVALID, "x" * 1_000_000)).body)["detail"]

    assert len(detail) == problems.DETAIL_LENGTH_MAX
    assert detail.endswith("x…")
