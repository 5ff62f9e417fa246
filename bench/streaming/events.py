"""The events of the benches of streams, each with the number of its request in it."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from bench.openloop.plan import MARK, request_text
from bench.streaming.apps import STREAM

PATH: Final = f"/v1/streams/{STREAM}/events"
NDJSON: Final = "application/x-ndjson"


class Numbered(msgspec.Struct, frozen=True):
    """What is read again of a body: the number of its request, and of its line where there were several."""

    n: str
    line: int = 0


def _body(line: int = 0) -> dict[str, Any]:
    """A typical one, some 170 bytes."""
    return {
        "n": MARK,
        "line": line,
        "customer": "c9",
        "lines": [{"sku": "a-1", "count": 2}],
        "note": "x" * 80,
    }


def one_event(host: str, *, ids: bool = False) -> str:
    """A request with one event, which has a key and, if that is asked for, an id."""
    headers = {"Backstay-Key": f"c{MARK}"} | ({"Backstay-Id": f"e-{MARK}"} if ids else {})
    return request_text(PATH, _compact(_body()), host=host, headers=headers)


def many_events(host: str, lines: int, *, ids: bool = False) -> str:
    """A request with so many of them as lines."""
    return request_text(
        PATH, "".join(_line(line, ids=ids) for line in range(lines)), host=host, content_type=NDJSON
    )


def _line(line: int, *, ids: bool) -> str:
    event = {"body": _body(line), "key": f"c{MARK}-{line % 100}"}
    return _compact(event | ({"id": f"e-{MARK}-{line}"} if ids else {})) + "\n"


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
