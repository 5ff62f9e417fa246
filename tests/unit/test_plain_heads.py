"""Which requests are plain: judged by the bytes of their head."""

from __future__ import annotations

import pytest

from backstay.api.plain_heads import BEGINNING, Shown, plain_head
from backstay.api.routes import ROUTES
from backstay.api.streams import append_events

HEADERS = ["Host: localhost", "Content-Type: application/json", "Content-Length: 12"]


def head(*more: str, target: str = "/v1/streams/orders/events", headers: list[str] = HEADERS) -> bytes:
    return "\r\n".join([f"POST {target} HTTP/1.1", *headers, *more]).encode("latin-1")


def replaced(begin: str, by: str) -> list[str]:
    return [by if line.startswith(begin) else line for line in HEADERS]


def test_a_plain_head_says_everything():
    found = plain_head(
        head(
            "Authorization: Bearer s", "origin:http://localhost", target="/v1/streams/a:b/events?id=e&key=k/1"
        )
    )

    assert found is not None
    assert (found.stream, found.key, found.id, found.length, found.lines) == ("a:b", "k/1", "e", 12, False)
    assert found.shown == Shown(("localhost",), ("http://localhost",), (), ("Bearer s",))


@pytest.mark.parametrize(
    ("more", "query", "said"),
    [
        ([], "", (None, None)),
        ([], "?key=k", ("k", None)),
        ([], "?id=e", (None, "e")),
        ([], "?key=k&id=e", ("k", "e")),
        (["Backstay-Key: a key"], "?id=e", ("a key", "e")),
        (["BACKSTAY-ID: e", "backstay-key: k"], "", ("k", "e")),
    ],
)
def test_key_and_id_are_taken_from_wherever_they_are(
    more: list[str], query: str, said: tuple[str | None, str | None]
):
    found = plain_head(head(*more, target=f"/v1/streams/orders/events{query}"))

    assert found is not None
    assert (found.key, found.id) == said


@pytest.mark.parametrize(
    "headers",
    [
        replaced("Content-Type", "content-type:application/JSON; charset=utf-8"),
        [*HEADERS, "Connection: Keep-Alive", "User-Agent: somebody/1.0 (x; y)", "Accept: */*", "Accept: a/b"],
        HEADERS[1:],
    ],
)
def test_what_changes_nothing_is_plain(headers: list[str]):
    assert plain_head(head(headers=headers)) is not None


def test_what_is_said_of_an_event_is_not_taken_for_that_of_the_next():
    first, second = (plain_head(head(f"Backstay-Key: {key}", "Backstay-Id: e")) for key in ("a", "b"))
    third = plain_head(head())

    assert [(found.key, found.id) for found in (first, second, third) if found is not None] == [
        ("a", "e"),
        ("b", "e"),
        (None, None),
    ]


def test_a_question_in_a_header_is_no_query():
    found = plain_head(head("Backstay-Key: k", "Sec-CH-UA-Mobile: ?0"))

    assert found is not None
    assert (found.key, found.id) == ("k", None)


def test_lines_are_told_from_one_event():
    found = plain_head(head(headers=replaced("Content-Type", "Content-Type: application/x-ndjson")))

    assert found is not None
    assert found.lines


@pytest.mark.parametrize(
    "target",
    [
        "/v1/streams//events",
        "/v1/streams/a%20b/events",
        "/v1/streams/a/events/",
        "/v1/streams/a/b/events",
        f"/v1/streams/{'a' * 201}/events",
        "/v1/streams/a/events?",
        "/v1/streams/a/events?key=",
        "/v1/streams/a/events?key=a+b",
        "/v1/streams/a/events?key=a%20b",
        "/v1/streams/a/events?key=a&key=b",
        "/v1/streams/a/events?id=a/b",
        f"/v1/streams/a/events?key={'k' * 201}",
        "/v1/streams/a/events?colour=red",
        "/v1/streams/a/events#here",
        "http://localhost/v1/streams/a/events",
        "/v1/streams/a/quarantine/resubmit",
    ],
)
def test_another_target_is_not_plain(target: str):
    assert plain_head(head(target=target)) is None


@pytest.mark.parametrize(
    "headers",
    [
        replaced("Content-Length", "X: y"),
        replaced("Content-Length", "Content-Length: 0"),
        replaced("Content-Length", "Content-Length: +1"),
        replaced("Content-Length", "Content-Length: 1, 1"),
        replaced("Content-Length", "Content-Length: 1234567890"),
        replaced("Content-Length", "Content-Length : 12"),
        replaced("Content-Type", "X: y"),
        replaced("Content-Type", "Content-Type: text/plain"),
        *([*HEADERS, line] for line in HEADERS),
        *(
            [*HEADERS, line]
            for line in [
                "Transfer-Encoding: chunked",
                "transfer-encoding:identity",
                "Expect: 100-continue",
                "Connection: close",
                "Connection: keep-alive, upgrade",
                "Upgrade: websocket",
                "Proxy-Connection: close",
                "Content-Encoding: identity",
                "TE: trailers",
                "Trailer: X",
                "Backstay-Id: a b",
                f"Backstay-Key: {'k' * 201}",
                "X:",
                "X: ",
                "X:  two spaces",
                "X: behind ",
                "X: \ttab",
                "X: nul\0",
                "X: \x80",
                "X: a\rb",
                "X: a\nContent-Length: 3",
                " folded",
                "no colon",
                ": no name",
                "a name: x",
                "",
            ]
        ),
    ],
)
def test_other_headers_are_not_plain(headers: list[str]):
    assert plain_head(head(headers=headers)) is None


@pytest.mark.parametrize(
    ("more", "target"),
    [
        (["Backstay-Key: a"], "/v1/streams/a/events?key=a"),
        (["Backstay-Id: a"], "/v1/streams/a/events?id=a"),
        (["Backstay-Key: a", "backstay-key: a"], "/v1/streams/a/events"),
        (["Backstay-Id: a", "Backstay-Key: k", "BACKSTAY-ID: a"], "/v1/streams/a/events"),
        (["Backstay-Id: a", "Backstay-Id: a b"], "/v1/streams/a/events"),
    ],
)
def test_what_is_said_twice_is_not_plain(more: list[str], target: str):
    assert plain_head(head(*more, target=target)) is None


@pytest.mark.parametrize(
    ("more", "query"), [(["Backstay-Key: a"], ""), (["Backstay-Id: a"], ""), ([], "?key=a"), ([], "?id=a")]
)
def test_lines_that_have_a_key_together_are_not_plain(more: list[str], query: str):
    lines = replaced("Content-Type", "Content-Type: application/x-ndjson")

    assert plain_head(head(*more, headers=lines, target=f"/v1/streams/a/events{query}")) is None


@pytest.mark.parametrize(
    "line", ["PUT {} HTTP/1.1", "POST {} HTTP/1.0", "POST  {} HTTP/1.1", "post {} HTTP/1.1"]
)
def test_another_first_line_is_not_plain(line: str):
    first = line.format("/v1/streams/a/events")

    assert plain_head("\r\n".join([first, *HEADERS]).encode()) is None


def test_what_is_plain_leads_to_the_route():
    [route] = [route for route in ROUTES if route.handler is append_events]

    assert f"{route.method} {route.path}".encode().startswith(BEGINNING)
    assert plain_head(head(target=route.path.replace("{stream}", "orders"))) is not None
