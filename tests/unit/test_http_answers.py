"""What the answer of an HTTP service means for a step, and what people read of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http import HTTPStatus

import msgspec
import pytest

from backstay import HttpAnswer, HttpFailed, HttpUnavailable, Permanent, Transient
from backstay.agents.http_answers import EXCERPT_LENGTH_MAX, error_for, is_success, is_transient, retry_after
from backstay.agents.http_requests import HttpRequest, Service, terms_elsewhere
from backstay.domain.retry import RETRY_AFTER_MAX

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
TOKEN = "s3cr3t-t0ken-of-the-drones"


class Drone(msgspec.Struct):
    drone_id: str


def request() -> HttpRequest:
    service = Service("http://drone:8080/api", headers={"authorization": f"Bearer {TOKEN}"})
    terms = terms_elsewhere(timedelta(seconds=5), timeout=None)
    return service.request("PUT", "/drones/7", terms=terms, json=None, params={"token": TOKEN}, headers=None)


def answer(status: int, body: str | bytes = b"", **headers: str) -> HttpAnswer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpAnswer(status, named, body if isinstance(body, bytes) else body.encode(), request())


def error(status: int, body: str | bytes = b"", **headers: str) -> HttpFailed | HttpUnavailable:
    return error_for(answer(status, body, **headers), now=NOW)


# Classes of status


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_a_success(status: int):
    assert is_success(status, ())


@pytest.mark.parametrize("status", [199, 300, 304, 400, 404, 500])
def test_everything_else_is_not_unless_it_is_named(status: int):
    assert not is_success(status, ())
    assert is_success(status, (status,))


def test_what_may_pass_is_408_425_429_and_5xx():
    assert [status for status in range(100, 700) if is_transient(status)] == [408, 425, 429, *range(500, 600)]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 502, 503, 504, 599])
def test_what_may_pass_is_transient_and_carries_its_status(status: int):
    failure = error(status)

    assert isinstance(failure, Transient)
    assert isinstance(failure, HttpUnavailable)
    assert failure.status == status


@pytest.mark.parametrize(
    "status", [301, 302, 303, 307, 308, 400, 401, 403, 404, 409, 410, 422, 451, 499, 600]
)
def test_the_rest_is_permanent_and_carries_its_status(status: int):
    failure = error(status)

    assert isinstance(failure, Permanent)
    assert isinstance(failure, HttpFailed)
    assert failure.status == status


def test_a_refusal_has_no_effect_but_an_error_or_a_redirect_may_have_one():
    """The undo of a step is called when it may have taken effect."""
    unsure = [status for status in (303, 400, 404, 408, 409, 425, 429, 500, 503) if error(status).unsure]

    assert unsure == [303, 408, 500, 503]


# Retry-After


def asked(retry: str, **others: str) -> timedelta | None:
    return retry_after({"Retry-After": retry, **others}, now=NOW)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("1", 1), (" 120 ", 120), ("007", 7), ("00000000000003", 3)]
)
def test_retry_after_may_be_given_in_seconds(text: str, seconds: int):
    assert asked(text) == timedelta(seconds=seconds)


def test_retry_after_may_be_given_as_an_instant():
    assert asked(format_datetime(NOW + timedelta(seconds=90), usegmt=True)) == timedelta(seconds=90)


def test_an_instant_is_read_by_the_clock_of_the_service():
    """Hosts disagree about what time it is."""
    there = NOW - timedelta(hours=3)
    at = format_datetime(there + timedelta(seconds=30), usegmt=True)

    assert asked(at, Date=format_datetime(there, usegmt=True)) == timedelta(seconds=30)


def test_an_instant_that_has_passed_asks_for_nothing():
    assert asked(format_datetime(NOW - timedelta(days=1), usegmt=True)) == timedelta(0)


@pytest.mark.parametrize(
    "text",
    ["86401", "999999999", "9" * 30, "9" * 10_000, "Fri, 31 Dec 9999 23:59:59 GMT"],
    ids=lambda t: t[:9],
)
def test_nobody_waits_for_longer_than_a_day(text: str):
    assert asked(text) == RETRY_AFTER_MAX == timedelta(days=1)


@pytest.mark.parametrize(
    "text", ["", "soon", "-5", "1.5", "١٢", "Tue, 99 Foo 2030 12:00:00 GMT", "Fri, 31 Dec 99999 00:00:00 GMT"]
)
def test_what_makes_no_sense_is_not_heard(text: str):
    assert asked(text) is None


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_every_answer_that_may_pass_can_say_when(status: int):
    failure = error(status, Retry_After="30")

    assert isinstance(failure, HttpUnavailable)
    assert failure.retry_after == timedelta(seconds=30)
    assert "to be asked again after 30s" in str(failure)


# What people read


def test_an_error_names_the_request_the_status_and_what_the_service_said():
    assert str(error(404, "no such\n\tdrone")) == (
        "PUT http://drone:8080/api/drones/7 answered 404 Not Found: no such drone"
    )


def test_a_status_that_nobody_knows_is_a_number():
    assert str(error(599)) == "PUT http://drone:8080/api/drones/7 answered 599"


def test_of_a_long_body_only_the_beginning_is_shown():
    said = str(error(400, "x" * 10_000)).partition("Bad Request: ")[2]

    assert said == "x" * (EXCERPT_LENGTH_MAX - 1) + "…"


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ({"title": "No drone", "detail": "All are out.", "status": 409, "x": 1}, "No drone: All are out."),
        ({"title": "No drone"}, "No drone"),
        ({"detail": "All are out."}, "All are out."),
        ({"title": "Conflict", "detail": "All are out."}, "All are out."),
        ({"title": 7}, '{"title":7}'),
        ({}, "{}"),
    ],
)
def test_of_a_problem_document_title_and_detail_are_shown(problem: dict[str, object], said: str):
    body = msgspec.json.encode(problem)

    failure = error(409, body, Content_Type="application/problem+json; charset=utf-8")

    assert str(failure).endswith(f"409 Conflict: {said}")


def test_what_a_body_holds_cannot_move_the_cursor_of_a_terminal():
    said = str(error(500, b"\x1b[2J\x07gone\r\n\xff\x00"))

    assert said.isprintable()
    assert "gone" in said


def test_a_redirect_says_where_it_points_and_that_nobody_follows():
    failure = error(302, "moved", Location="https://bob:pw@depot/drones?session=abc#top")

    assert str(failure) == (
        "PUT http://drone:8080/api/drones/7 answered 302 Found, which points to https://depot/drones;"
        " redirects are not followed: moved"
    )


@pytest.mark.parametrize("location", ["", "http://[", "\x1b[2J"])
def test_a_redirect_to_nowhere_is_one_all_the_same(location: str):
    failure = error(301, Location=location)

    assert "redirects are not followed" in str(failure)
    assert str(failure).isprintable()


@pytest.mark.parametrize(
    "body",
    [
        f"you sent Authorization: Bearer {TOKEN}",
        f'{{"detail": "{TOKEN} has expired"}}',
        f"{'x' * (EXCERPT_LENGTH_MAX - 10)}{TOKEN}",
    ],
)
def test_a_secret_that_the_service_echoes_is_hidden(body: str):
    said = str(error(401, body))

    assert TOKEN[:8] not in said
    assert "hidden" in said or "…" in said


def test_neither_request_nor_answer_show_what_is_secret():
    shown = repr(answer(200, f"token={TOKEN}", Set_Cookie=f"session={TOKEN}"))

    assert TOKEN not in shown
    assert TOKEN not in repr(request())
    assert "PUT http://drone:8080/api/drones/7" in repr(request())


# Reading a success


def test_a_body_is_decoded_from_json():
    assert answer(200, '{"drone_id": "d"}').json() == {"drone_id": "d"}


def test_a_body_is_checked_against_a_type():
    assert answer(200, '{"drone_id": "d"}').json(Drone) == Drone("d")
    assert answer(200, '[{"drone_id": "d"}]').json(list[Drone]) == [Drone("d")]
    assert answer(200, "null").json(Drone | None) is None


@pytest.mark.parametrize(
    ("body", "kind", "complaint"),
    [
        ("<html>", dict, "with text/html, but the body does not fit its type: JSON is malformed"),
        ("", dict, "with text/html, but the body does not fit its type: Input data was truncated"),
        ("{}", Drone, "missing required field `drone_id`"),
        (f'"{TOKEN}"', HTTPStatus, "[hidden]"),
    ],
)
def test_a_body_that_is_something_else_fails_for_good_though_the_work_is_done(
    body: str, kind: type, complaint: str
):
    with pytest.raises(HttpFailed) as failed:
        answer(200, body, Content_Type="text/html").json(kind)

    assert complaint in str(failed.value)
    assert str(failed.value).startswith("PUT http://drone:8080/api/drones/7 answered 200 OK")
    assert TOKEN not in str(failed.value)
    assert (failed.value.status, failed.value.unsure) == (200, True)


def test_text_is_read_whatever_it_is():
    headers: Mapping[str, str] = {}

    assert HttpAnswer(200, headers, b"k\xc3\xa4se \xff", request()).text() == "käse �"
