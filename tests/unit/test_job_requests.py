"""What a request of a job says, and where a redirect leads it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import pytest

from backstay.domain.jobs.occurrences import Run
from backstay.domain.jobs.records import Occurrence
from backstay.jobs.http_request import (
    REDIRECTS_MAX,
    HttpRequest,
    NotSent,
    identifying,
    redirected,
    request_of,
)
from tests.support.job_records import NOON, PLACE

OCCURRENCE = Occurrence(job_key=1, uid="u1", generation=2, at=NOON, number=7)


def made(password: str = "", **given: Any) -> HttpRequest:
    request = {"uri": "https://shop.example/orders?a=%2d", "method": "post", **given}
    action: Mapping[str, Any] = {"type": "Http", "request": request}
    run = Run(occurrence=OCCURRENCE, collection=PLACE, region="West US", job="nightly", action=action)
    return request_of(run, action, key=OCCURRENCE.task_id, attempt="first", password=password)


def test_method_address_and_body_are_sent_as_they_were_written():
    request = made(body="grüezi")

    assert (request.method, request.url) == ("POST", "https://shop.example/orders?a=%2d")
    assert request.body == "grüezi".encode()


def test_it_says_what_it_is_about():
    headers = made().headers

    assert headers["x-ms-scheduler-jobid"] == "nightly"
    assert headers["x-ms-scheduler-jobcollectionid"] == "jc"
    assert headers["x-ms-scheduler-execution-region"] == "West US"
    assert headers["x-ms-scheduler-expected-execution-time"] == "2030-01-01T12:00:00Z"
    assert len(headers["x-ms-execution-tag"]) == 32
    assert headers["Idempotency-Key"] == OCCURRENCE.task_id


def test_headers_of_the_job_count_but_for_those_that_say_what_it_is_about():
    headers = made(headers={"user-agent": "mine", "X-MS-Scheduler-JobId": "forged", "x-color": "red"}).headers

    assert {name.lower() for name in headers} >= {"user-agent", "x-color"}
    assert headers["user-agent"] == "mine"
    assert "User-Agent" not in headers
    assert "forged" not in headers.values()


def test_what_belongs_to_the_connection_is_not_the_jobs_to_say():
    headers = made(
        headers={"Content-Length": "1", "Transfer-Encoding": "chunked", "Connection": "close"}
    ).headers

    assert not {"content-length", "transfer-encoding", "connection"} & {name.lower() for name in headers}


def test_basic_authentication_wins_over_a_header_that_says_otherwise():
    request = made(
        "geheim",
        headers={"authorization": "Bearer x"},
        authentication={"type": "Basic", "username": "Aladdin"},
    )

    assert request.headers["Authorization"] == "Basic QWxhZGRpbjpnZWhlaW0="
    assert "authorization" not in request.headers
    assert "QWxhZGRpbjpnZWhlaW0" not in repr(request)


@pytest.mark.parametrize("uri", ["ftp://shop.example/", "http://", "http://[::1", "http://host:99999/"])
def test_an_address_that_leads_nowhere_is_not_asked(uri: str):
    with pytest.raises(NotSent, match="Http Action - Request to host"):
        made(uri=uri)


# Redirects


@pytest.mark.parametrize(
    ("status", "method", "body"),
    [(301, "GET", None), (302, "GET", None), (303, "GET", None), (307, "POST", b"b"), (308, "POST", b"b")],
)
def test_only_307_and_308_are_asked_for_the_same_again(status: int, method: str, body: bytes | None):
    request = made(body="b", headers={"Content-Type": "text/plain"})

    following = redirected(request, status, "/elsewhere")

    assert following is not None
    assert (following.method, following.body) == (method, body)
    assert ("Content-Type" in following.headers) is (body is not None)
    assert following.url == "https://shop.example/elsewhere"


def test_a_blank_in_a_location_does_not_end_the_address():
    following = redirected(made(), 302, "/my orders HTTP/1.0?a=b c")

    assert following is not None
    assert following.url == "https://shop.example/my%20orders%20HTTP/1.0?a=b%20c"


def test_on_the_same_host_it_is_still_the_same_who_asks():
    request = made("pw", authentication={"type": "Basic", "username": "u"}, headers={"x-key": "k"})

    following = redirected(request, 302, "https://shop.example:443/elsewhere")

    assert following is not None
    assert {"Authorization", "x-key", "Idempotency-Key"} <= set(following.headers)


@pytest.mark.parametrize(
    "location", ["https://other.example/", "https://shop.example:8443/", "//other.example"]
)
def test_another_host_is_not_told_who_asks(location: str):
    request = made(
        "pw", authentication={"type": "Basic", "username": "u"}, headers={"x-key": "k", "Accept": "a"}
    )

    following = redirected(request, 302, location)

    assert following is not None
    assert not {"Authorization", "x-key"} & set(following.headers)
    assert {"Accept", "x-ms-scheduler-jobid"} <= set(following.headers)


def test_another_scheme_at_the_same_port_is_not_told_who_asks_either():
    request = made(uri="http://shop.example:8443/", headers={"x-key": "k"})

    following = redirected(request, 302, "https://shop.example:8443/")

    assert following is not None
    assert "x-key" not in following.headers


@pytest.mark.parametrize(("location", "shows"), [("/elsewhere", True), ("https://other.example/", False)])
def test_a_certificate_is_shown_where_the_job_itself_leads_and_nowhere_else(location: str, shows: bool):
    identity = ssl.create_default_context()
    request = identifying(made(), identity)

    following = redirected(request, 307, location)

    assert following is not None
    assert (following.identity is identity) is shows
    # And nobody else uses the connection that was opened with it.
    assert request.headers["Connection"] == "close"


def test_a_certificate_that_nobody_would_see_is_not_sent():
    with pytest.raises(NotSent, match="needs an https address"):
        identifying(made(uri="http://shop.example/"), ssl.create_default_context())


def test_no_redirect_leads_out_of_tls():
    with pytest.raises(NotSent, match="leads out of TLS"):
        redirected(made(), 302, "http://shop.example/")


@pytest.mark.parametrize("location", ["file:///etc/passwd", "gopher://shop.example/", "http://[::1"])
def test_no_redirect_leads_out_of_http(location: str):
    with pytest.raises(NotSent):
        redirected(made(uri="http://shop.example/"), 302, location)


def test_after_some_redirects_it_is_enough():
    request: HttpRequest | None = made()
    for _ in range(REDIRECTS_MAX):
        assert request is not None
        request = redirected(request, 302, "/again")

    assert request is not None
    with pytest.raises(NotSent, match="ProtocolError Too many automatic redirections"):
        redirected(request, 302, "/again")


@pytest.mark.parametrize(("status", "location"), [(200, "/x"), (304, "/x"), (302, None), (503, "/x")])
def test_anything_else_is_the_answer(status: int, location: str | None):
    assert redirected(made(), status, location) is None
