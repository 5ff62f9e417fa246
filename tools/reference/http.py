"""The HTTP interface, from the document that a server gives at ``/openapi.json``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from backstay.api.arm import routes as arm_routes
from backstay.api.openapi import document
from backstay.api.routes import ROUTES
from tools.reference import markdown

Json = Mapping[str, Any]

ABOUT: Final = """\
A server describes itself at `/openapi.json`, for programs, and at `/docs`; this page is made of the same
document. Refusals are `application/problem+json` ([Problem](#problem)) and say what to do. Those that any
request may meet are not repeated with each: 401, 403 and 429 where tokens are in use, 422 for what does not
fit its shape, 500, and 503 while the store is away; with a body also 400 when it is not JSON, 408, 413 and
415. A `*` marks members that are always there."""

JOBS: Final = "/subscriptions/"
COLLECTIONS: Final = (
    "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Scheduler/jobCollections"
)
#: They may be the answer to anything.
EVERYWHERE: Final = {"400", "401", "403", "408", "413", "415", "422", "429", "500", "503"}


def page() -> str:
    told = document((*ROUTES, *arm_routes.ROUTES))
    return markdown.page("HTTP", ABOUT, [*_operations(told), "## Shapes", *_shapes(told)])


def _operations(told: Json) -> Iterator[str]:
    for section, paths in groupby(told["paths"].items(), key=lambda entry: _section(entry[0])):
        yield f"## {section}"
        if section == "jobs":
            yield f"`…` stands for `{COLLECTIONS}`. Each request names an `api-version`."
        for path, methods in paths:
            for method, operation in methods.items():
                yield from _operation(method.upper(), path.replace(COLLECTIONS, "…"), operation)


def _section(path: str) -> str:
    if path.startswith(JOBS):
        return "jobs"
    first, _, rest = path.strip("/").partition("/")
    return rest.partition("/")[0] if first == "v1" else "about the server"


def _operation(method: str, path: str, operation: Json) -> Iterator[str]:
    yield f"### {method} {path}"
    yield f"{operation['summary']}. {operation['description']}"
    yield from markdown.table(
        ("parameter", "in", "", ""), (_parameter(one) for one in operation["parameters"])
    )
    if "requestBody" in operation:
        kinds = operation["requestBody"]["content"].items()
        yield "Body: " + ", or ".join(_content(kind, content["schema"]) for kind, content in kinds)
    yield "Answers: " + " · ".join(_answer(status, one) for status, one in _particular(operation))


def _particular(operation: Json) -> Iterator[tuple[str, Json]]:
    return ((status, one) for status, one in operation["responses"].items() if status not in EVERYWHERE)


def _parameter(one: Json) -> tuple[str, str, str, str]:
    meaning = one.get("description") or one["schema"].get("description", "")
    needed = "required" if one["required"] else ""
    return (
        markdown.code(one["name"]),
        one["in"],
        " ".join(filter(None, (_kind(one["schema"]), needed))),
        meaning,
    )


def _content(kind: str, schema: Json) -> str:
    return f"{markdown.code(kind)} {_kind(schema)}".strip()


def _answer(status: str, response: Json) -> str:
    shapes = [_kind(one["schema"]) for one in response.get("content", {}).values()]
    said = [] if shapes in ([], ["[Problem](#problem)"]) else [shape for shape in shapes if shape]
    return " ".join([f"**{status}**", *(said or [response["description"]])])


def _shapes(told: Json) -> Iterator[str]:
    for name, schema in sorted(told["components"]["schemas"].items()):
        yield f"### {name}"
        if "description" in schema:
            yield schema["description"]
        needed = set(schema.get("required", ()))
        fields = schema.get("properties", {}).items()
        yield from markdown.table(
            ("member", "", ""),
            (
                (
                    markdown.code(field) + (" *" if field in needed else ""),
                    _kind(one),
                    one.get("description", ""),
                )
                for field, one in fields
            ),
        )
        if not fields and (kind := _kind(schema)) != "object":
            yield kind


def _kind(schema: Json) -> str:
    """A schema in few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(markdown.code(json.dumps(one)) for one in schema["enum"])
    kind = str(schema.get("format") or schema.get("type", "any JSON"))
    match kind:
        case "array":
            return f"list of {_kind(schema.get('items', {}))}"
        case "object" if isinstance(schema.get("additionalProperties"), Mapping):
            return f"object of {_kind(schema['additionalProperties'])}"
    bounds = " to ".join(f"{schema[end]:,}" for end in ("minimum", "maximum") if end in schema)
    default = f"default {json.dumps(schema['default'])}" if "default" in schema else ""
    details = ", ".join(detail for detail in (bounds, default) if detail)
    return f"{kind} ({details})" if details else kind
