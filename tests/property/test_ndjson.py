"""What is judged at a glance is judged as if it had been looked at piece by piece."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from backstay.domain import jsontext, ndjson
from backstay.domain.stream import NewEvent
from backstay.errors import InvalidRequest

texts = st.text(st.sampled_from('ab:"\\\0\u00e9\u2028😀\n{}[],'), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def objects(draw: st.DrawFn, members: dict[str, st.SearchStrategy[Any]]) -> str:
    """An object written by hand: members may come twice, escapes where none are needed, blanks anywhere."""
    names = draw(st.lists(st.sampled_from([*members]), max_size=5))
    written = [
        f"{text(draw, name)}{draw(blanks)}:{draw(blanks)}{text(draw, draw(members[name]))}" for name in names
    ]
    return f"{{{draw(blanks)}{','.join(written)}{draw(blanks)}}}"


blanks = st.sampled_from(["", " ", "\t", "\r"])


def text(draw: st.DrawFn, value: Any) -> str:
    written = json.dumps(value, ensure_ascii=draw(st.booleans()))
    return written.replace(":", "\\u003a") if isinstance(value, str) and draw(st.booleans()) else written


lines = objects(
    {
        "body": values,
        "key": texts | st.none(),
        "id": st.sampled_from(["a:b", "e1", "", "a b"]) | st.none(),
        "headers": st.dictionaries(texts, texts | st.integers(), max_size=3) | st.none(),
        "other": values,
    }
)
inner = objects({"a": values, "b": values, "a:": texts}).map(lambda body: f'{{"body":{body}}}')
broken = st.tuples(lines, st.integers(0, 60), st.characters()).map(
    lambda it: it[0][: it[1]] + it[2] + it[0][it[1] :]
)


def outcome(judge: Any, line: bytes) -> NewEvent | None:
    try:
        return judge(line)
    except InvalidRequest:
        return None


@given(
    st.one_of(lines, inner, broken).map(lambda line: line.encode(errors="surrogatepass"))
    | st.binary(max_size=40)
)
@example(b'{"body":{"a":1,"a":":"}}')
@example(b'{"body":"\\u003a","body":1}')
@example(b'{"key":null,"key":":","body":1}')
def test_a_glance_and_a_look_agree(line: bytes):
    assert outcome(lambda line: ndjson.event_in(line, bytes_max=1_000_000), line) == outcome(
        ndjson.looked_at, line
    )


@given(
    st.one_of(inner, lines, broken).map(lambda line: line.encode(errors="surrogatepass"))
    | st.binary(max_size=40)
)
def test_a_body_that_comes_alone_is_judged_alike_both_ways(body: bytes):
    def strictly(text: bytes) -> bytes:
        return jsontext.written(jsontext.value_of(text))

    assert outcome(jsontext.canonical, body) == outcome(strictly, body)


@given(values.filter(lambda value: b"\\u0000" not in msgspec.json.encode(value)))
def test_what_is_kept_of_a_body_is_its_value(value: Any):
    line = b'{"body":%s}' % msgspec.json.encode(value)

    assert msgspec.json.decode(ndjson.event_in(line, bytes_max=1_000_000).body) == value
