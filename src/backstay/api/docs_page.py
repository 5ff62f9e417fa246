"""The OpenAPI document as one page: no script, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

import msgspec

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
details { border: 1px solid #8886; border-radius: .4rem; margin: .4rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; }
b { display: inline-block; min-width: 4.5rem; font-family: monospace; }
code, pre { font-family: monospace; font-size: 90%; }
pre { overflow-x: auto; }
table { border-collapse: collapse; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; }
:root { color-scheme: light dark; }
"""

_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

#: The style below and nothing else.
POLICY: Final = f"default-src 'none'; style-src 'sha256-{_DIGEST}'; frame-ancestors 'none'; base-uri 'none'"

Json = Mapping[str, Any]


def page(document: Json) -> str:
    """The page for ``document``."""
    info = document["info"]
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
            f"<p>{escape(info['description'])} For programs: <code>/openapi.json</code>.</p>",
            *_operations(document),
            "<h2>Schemas</h2>",
            *_schemas(document),
            "</body></html>",
        )
    )


def _operations(document: Json) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
            yield f"{escape(operation['summary'])}</summary><p>{escape(operation['description'])}</p>"
            yield from _parameters(operation)
            yield from _body(operation)
            yield from _responses(operation)
            yield "</details>"


def _parameters(operation: Json) -> Iterator[str]:
    if operation["parameters"]:
        yield "<h4>Parameters</h4><table>"
        for one in operation["parameters"]:
            yield f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td>"
            yield f"<td><code>{escape(_line(one['schema']))}</code></td></tr>"
        yield "</table>"


def _body(operation: Json) -> Iterator[str]:
    if "requestBody" in operation:
        yield "<h4>Body</h4>"
        for kind, content in operation["requestBody"]["content"].items():
            yield f"<p>{escape(kind)} <code>{escape(_line(content['schema']))}</code></p>"


def _responses(operation: Json) -> Iterator[str]:
    yield "<h4>Answers</h4><table>"
    for status, response in operation["responses"].items():
        shown = " ".join(_line(content["schema"]) for content in response.get("content", {}).values())
        yield f"<tr><td>{status}</td><td>{escape(response['description'])}</td>"
        yield f"<td><code>{escape(shown)}</code></td></tr>"
    yield "</table>"


def _schemas(document: Json) -> Iterator[str]:
    for name, schema in document["components"]["schemas"].items():
        text = msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()
        yield f"<details><summary><code>{escape(name)}</code></summary><pre>{escape(text)}</pre></details>"


def _line(schema: Json) -> str:
    """A schema in few words: the name of what it refers to, or itself."""
    reference: str = schema.get("$ref", "")
    return reference.rpartition("/")[2] or msgspec.json.encode(schema).decode()
