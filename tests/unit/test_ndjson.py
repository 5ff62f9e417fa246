"""Lines of events: which are good, and what is said of the others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backstay.domain.jsontext import NESTING_MAX
from backstay.domain.ndjson import DETAIL_LENGTH_MAX, MARGIN_BYTES, event_in, judged
from backstay.domain.stream import HEADERS_MAX, KEY_LENGTH_MAX
from backstay.errors import InvalidRequest

LIMIT = 1024 * 1024


def refusal_of(line: bytes, *, bytes_max: int = LIMIT) -> str:
    with pytest.raises(InvalidRequest) as caught:
        event_in(line, bytes_max=bytes_max)
    return str(caught.value)


def nested(levels: int) -> bytes:
    return b'{"body": ' + b"[" * levels + b"]" * levels + b"}"


def test_a_line_is_an_event():
    line = b'{"body": {"b": 1.50, "a": "\\u00e9"}, "key": "k:1", "id": "e:1", "headers": {"h": "v:w"}}'

    event = event_in(line, bytes_max=LIMIT)

    assert event.body == '{"a":"é","b":1.5}'.encode()
    assert (event.key, event.id, event.headers) == ("k:1", "e:1", {"h": "v:w"})


@pytest.mark.parametrize("line", [b'{"body": null}', b' {"key": null, "body": null, "id": null}\r'])
def test_all_but_the_body_may_be_left_out(line: bytes):
    event = event_in(line, bytes_max=LIMIT)

    assert (event.body, event.key, event.id, event.headers) == (b"null", None, None, None)


@pytest.mark.parametrize("body", ["a: b", "::", '":"', "\\:", "é:", "x\ny: z", {"a:b": {"c:": [":"]}}])
def test_a_colon_in_a_text_is_no_key(body: Any):
    for text in (json.dumps(body), json.dumps(body, ensure_ascii=False)):
        line = f'{{"body": {text}, "id": "a:b", "key": "\\u003a"}}'.encode()

        assert json.loads(event_in(line, bytes_max=LIMIT).body) == body


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "must be one JSON value"),
        (b'{"body": NaN}', "must be one JSON value"),
        (b'{"body": 1} {"body": 2}', "must be one JSON value"),
        (b'{"body": "\xff"}', "must be one JSON value"),
        (b'{"body": "\\ud800"}', "must be one JSON value"),
        (b'{"body": "\x00"}', "must be one JSON value"),
        (b'{"body": 1e999}', "a number that cannot be kept"),
        (b'{"body": "\\u0000"}', "NUL"),
        (b'{"body": {"a\\u0000": 1}}', "NUL"),
        (b'{"body": 1, "key": "\\u0000"}', "NUL"),
        (b'{"body": {"a": 1, "a": 2}}', "comes twice"),
        (b'{"body": {"a": 1, "\\u0061": 2}}', "comes twice"),
        (b'{"body": {"a": "\\u003a", "a": ":"}}', "comes twice"),
        (b'{"body": 1, "body": 2}', "comes twice"),
        (b'{"body": 1, "id": "a", "id": "b:"}', "comes twice"),
        (b'{"body": 1, "headers": {"a": "b", "a": "c"}}', "comes twice"),
        (nested(NESTING_MAX + 1), "nested more than 100 levels"),
        (nested(100_000), "nested more than 100 levels"),
        (b"[]", "Expected `object`"),
        (b'"text"', "Expected `object`"),
        (b"{}", "missing required field `body`"),
        (b'{"body": 1, "partition": 3}', "unknown field `partition`"),
        (b'{"body": 1, "key": 7}', "$.key"),
        (b'{"body": 1, "key": ""}', "1 to 200 characters"),
        (b'{"body": 1, "key": "%s"}' % (b"k" * (KEY_LENGTH_MAX + 1)), "1 to 200 characters"),
        (b'{"body": 1, "id": "a b"}', "id is 'a b'"),
        (b'{"body": 1, "id": ""}', "id is ''"),
        (b'{"body": 1, "headers": {"a": 1}}', "$.headers"),
        (
            b'{"body": 1, "headers": {%s}}' % b",".join(b'"%d":""' % n for n in range(HEADERS_MAX + 1)),
            "32 entries",
        ),
        (b'{"body": 1, "headers": {"a": "%s"}}' % (b"x" * 9_000), "8,192 bytes"),
    ],
)
def test_a_bad_line_says_what_is_wrong_with_it(line: bytes, reason: str):
    assert reason in refusal_of(line)


def test_a_body_may_be_as_deep_and_as_large_as_one_that_comes_alone():
    assert event_in(nested(NESTING_MAX), bytes_max=LIMIT).body == b"[" * 100 + b"]" * 100
    assert event_in(b'{"body": "12345678"}', bytes_max=10).body == b'"12345678"'
    assert "11 bytes of JSON; the limit is 10 bytes" in refusal_of(b'{"body": "123456789"}', bytes_max=10)


def test_a_line_that_is_far_too_long_is_not_even_read():
    line = b" " * (MARGIN_BYTES + 10) + b'{"body": 1}'

    assert "the line is 65,557 bytes" in refusal_of(line, bytes_max=10)


def test_a_bad_line_keeps_no_good_one_out():
    lines = [b'{"body": 1}', b"oops", b"", b'{"body": 2}', b" \r", b'{"body": 3, "x": 0}', b'{"body": 4}']

    found = judged(lines, first=11, bytes_max=LIMIT)

    assert [event.body for event in found.events] == [b"1", b"2", b"4"]
    assert found.numbers == [11, 14, 17]
    assert [bad.line for bad in found.bad] == [12, 16]


def test_little_is_quoted_of_a_long_line():
    [bad] = judged([b'{"body": 1, "%s": 2}' % (b"x" * 100_000)], bytes_max=LIMIT).bad

    assert len(bad.detail) == DETAIL_LENGTH_MAX
