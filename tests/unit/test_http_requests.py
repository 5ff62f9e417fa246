"""What an HttpAgent sends: where it may lead, what it carries, how long it may take."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstay import InvalidRequest, Permanent
from backstay.agents.http_requests import (
    HttpPath,
    HttpRequest,
    Service,
    terms_elsewhere,
    terms_in_step,
)
from backstay.definitions.ambient import StepContext
from backstay.errors import InvalidDefinition, InvalidHttpRequest

BASE = "http://drone:8080/api"
TERMS = terms_elsewhere(timedelta(seconds=5), timeout=None)


def request(
    path: HttpPath = "/drones", *, base: str = BASE, method: str = "PUT", **options: Any
) -> HttpRequest:
    given = {"json": None, "params": None, "headers": None, **options}
    return Service(base, headers=None).request(method, path, terms=TERMS, **given)


# The path


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("/drones/7", f"{BASE}/drones/7"),
        ("/", f"{BASE}/"),
        ("/drones/", f"{BASE}/drones/"),
        ("/a:b@c;d=1,2", f"{BASE}/a:b@c;d=1,2"),
        ("/käse und brot", f"{BASE}/k%C3%A4se%20und%20brot"),
        ("/already%20quoted%2Fwell", f"{BASE}/already%20quoted%2Fwell"),
        ("/line\r\nend\\", f"{BASE}/line%0D%0Aend%5C"),
        ((), BASE),
        (("drones", 7), f"{BASE}/drones/7"),
        (("drones", "a/b?c#d%e f"), f"{BASE}/drones/a%2Fb%3Fc%23d%25e%20f"),
        (["drones", "..."], f"{BASE}/drones/..."),
    ],
)
def test_a_path_is_joined_below_the_url_of_the_service(path: HttpPath, url: str):
    assert request(path).url == url


@pytest.mark.parametrize(
    "path",
    [
        "http://elsewhere/drones",
        "//elsewhere/drones",
        "drones",
        "",
        "@elsewhere/",
        ":90/",
        "/drones//pings",
        "/../admin",
        "/drones/..",
        "/drones/./x",
        "/%2e%2E/admin",
        "/drones?all=1",
        "/drones#all",
        "/100%",
        "/half\ud800",
        ("drones", ""),
        ("drones", ".."),
        ("drones", "."),
        ("half\ud800",),
    ],
    ids=ascii,
)
def test_a_path_that_would_lead_elsewhere_is_refused_for_good(path: HttpPath):
    with pytest.raises(InvalidRequest, match="path") as refused:
        request(path)

    assert isinstance(refused.value, InvalidHttpRequest)
    assert isinstance(refused.value, Permanent)


def test_a_refusal_does_not_repeat_a_query():
    with pytest.raises(InvalidHttpRequest) as refused:
        request("/drones?token=s3cr3t")

    assert "s3cr3t" not in str(refused.value)


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1))
def test_whatever_a_part_holds_it_stays_one_part(parts: list[str]):
    try:
        url = urlsplit(request(tuple(parts)).url)
    except InvalidHttpRequest:
        assert {".", ".."} & set(parts)
        return

    assert (url.netloc, url.query, url.fragment) == ("drone:8080", "", "")
    assert [unquote(part) for part in url.path.split("/")] == ["", "api", *parts]


@given(st.text())
def test_no_text_leads_to_another_host_or_above_the_service(path: str):
    try:
        url = urlsplit(request(path).url)
    except InvalidHttpRequest:
        return

    assert (url.scheme, url.netloc, url.query, url.fragment) == ("http", "drone:8080", "", "")
    assert url.path.startswith("/api/")
    assert not {".", ".."} & {unquote(part) for part in url.path.split("/")}


# The url of the service


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://drone", "http://drone/x"),
        ("https://drone:8443/", "https://drone:8443/x"),
        ("http://[::1]:80/api/", "http://[::1]:80/api/x"),
    ],
)
def test_the_url_of_a_service_may_have_a_port_and_a_path(base: str, url: str):
    assert request("/x", base=base).url == url


@pytest.mark.parametrize(
    "base",
    [
        "",
        "drone:8080",
        "ftp://drone",
        "http://",
        "http:///api",
        "http://drone:99999",
        "http://drone:0",
        "http://drone:port",
        "http://[::1",
        "http://drone/?token=s3cr3t",
        "http://drone/#s3cr3t",
        "http://dröhne",
        "http://drone /",
        "ftp://bob:s3cr3t@drone",
    ],
)
def test_another_url_is_refused_where_it_is_declared_and_not_repeated(base: str):
    with pytest.raises(InvalidDefinition, match="url of the service") as refused:
        Service(base, headers=None)

    assert "s3cr3t" not in str(refused.value)


def test_credentials_in_the_url_become_a_header_and_are_shown_nowhere():
    made = request("/x", base="https://bob:s3cr%3At@drone")

    assert made.headers["Authorization"] == f"Basic {b64encode(b'bob:s3cr:t').decode()}"
    assert (made.url, made.shown) == ("https://drone/x", "PUT https://drone/x")


def test_credentials_are_not_given_twice():
    with pytest.raises(InvalidDefinition, match="twice"):
        Service("https://bob:pw@drone", headers={"authorization": "Bearer abc"})


# Query, body, headers


def test_params_become_the_query_and_are_not_shown():
    made = request(params={"q": "a b&c", "all": True, "n": 7, "tag": ["x", "y"]})

    assert made.url == f"{BASE}/drones?q=a+b%26c&all=true&n=7&tag=x&tag=y"
    assert made.shown == f"PUT {BASE}/drones"


@pytest.mark.parametrize("value", [None, {"a": 1}, b"x", "half\ud800"], ids=ascii)
def test_params_that_have_no_text_are_refused(value: Any):
    with pytest.raises(InvalidHttpRequest, match="params"):
        request(params={"q": value})


def test_json_is_the_body_and_says_so():
    made = request(json={"expedited": True})

    assert (made.body, made.headers["Content-Type"]) == (b'{"expedited":true}', "application/json")
    assert request().body is None
    assert "Content-Type" not in request().headers


def test_a_value_that_has_no_json_form_is_refused_for_good():
    with pytest.raises(Permanent, match=f"json of PUT {BASE}/drones cannot be written as JSON"):
        request(json={"lock": object()})


def test_headers_of_the_request_win_over_those_of_the_agent_whatever_their_case():
    service = Service(BASE, headers={"x-tenant": "a", "ACCEPT": "text/plain"})

    made = service.request(
        "PUT", "/x", terms=TERMS, json=1, params=None, headers={"X-Tenant": "b", "content-type": "x/y"}
    )

    assert made.headers == {
        "X-Tenant": "b",
        "Accept": "text/plain",
        "Content-Type": "x/y",
        "Backstay-Remaining": "5.000",
    }


@pytest.mark.parametrize(
    "headers", [{"X": "s3cr3t\r\nHost: evil"}, {"X": "s3cr3t\0"}, {"X": 7}, {"X Y": "s3cr3t"}, {"": "s3cr3t"}]
)
def test_a_header_that_is_not_one_line_is_refused_and_not_repeated(headers: dict[str, str]):
    with pytest.raises(InvalidHttpRequest, match="header") as refused:
        request(headers=headers)

    assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize("method", ["", "put", "GET /x HTTP/1.1\r\n", "P T"])
def test_a_method_is_a_word(method: str):
    with pytest.raises(InvalidHttpRequest, match="method"):
        request(method=method)


def test_a_long_address_is_cut_where_it_is_shown():
    made = request(("x" * 5_000,))

    assert len(made.url) > 5_000
    assert len(made.shown) == 300


# The time


@dataclass(frozen=True)
class Running:
    remaining: timedelta
    cancelled: bool = False


def step(remaining: timedelta) -> StepContext:
    return StepContext(
        task_id="t",
        key="schedule:1",
        attempt=1,
        idempotency_key="t/schedule:1",
        complete_by=datetime(2030, 1, 1, 12, 0, 4, 250_999, tzinfo=UTC),
        outcome=None,
        _running=Running(remaining),
    )


@pytest.mark.parametrize(
    ("remaining", "given", "header"),
    [
        (timedelta(seconds=4.3), timedelta(seconds=4.25), "4.250"),
        (timedelta(milliseconds=100), timedelta(milliseconds=95), "0.095"),
        (timedelta(hours=1), timedelta(minutes=59, seconds=59.95), "3599.950"),
        (timedelta(microseconds=4_300_999), timedelta(seconds=4.25), "4.250"),
        (timedelta(microseconds=1_000), timedelta(0), "0.000"),
        (timedelta(0), timedelta(0), "0.000"),
    ],
)
def test_a_request_gets_a_little_less_than_what_remains_so_that_its_failure_can_be_told(
    remaining: timedelta, given: timedelta, header: str
):
    terms = terms_in_step(step(remaining), timeout=None)

    assert terms.time == given
    assert terms.headers == {
        "Idempotency-Key": "t/schedule:1",
        "Backstay-Remaining": header,
        "Backstay-Complete-By": "2030-01-01T12:00:04.250Z",
    }


def test_a_timeout_of_its_own_is_never_longer_than_what_remains():
    assert terms_in_step(step(timedelta(seconds=5)), timeout=timedelta(seconds=1)).time == timedelta(
        seconds=1
    )
    assert terms_in_step(step(timedelta(seconds=1)), timeout=timedelta(seconds=5)).time < timedelta(seconds=1)


def test_outside_a_task_there_is_no_key():
    terms = terms_elsewhere(timedelta(seconds=30), timeout=timedelta(seconds=2))

    assert (terms.time, terms.headers) == (timedelta(seconds=2), {"Backstay-Remaining": "2.000"})
