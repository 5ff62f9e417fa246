"""The OpenAPI document, written from the table of routes and the types of their handlers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

import msgspec
from starlette.responses import Response

from backstay.api.calls import Header
from backstay.api.contents import NDJSON
from backstay.api.routing import Route
from backstay.web import bodies, problems
from backstay.web.problems import Kind, Problem

_REFERENCE: Final = "#/components/schemas/{name}"
_BEARER: Final = "bearer"

Json = dict[str, Any]


def document(routes: Iterable[Route]) -> Json:
    """The document for ``routes``."""
    table = tuple(routes)
    schemas = Schemas(table)
    paths: dict[str, Json] = {}
    for route in table:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Backstay",
            "version": version("backstay"),
            "description": "Durable tasks: hand them in, watch them, step in. Instants are RFC 3339 in UTC.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {_BEARER: {"type": "http", "scheme": "bearer"}},
        },
    }


class Schemas:
    """The JSON schema of every type that some route takes or answers."""

    def __init__(self, routes: Sequence[Route]) -> None:
        taken = [kind for route in routes for kind in (*_parameter_kinds(route), *_body_kinds(route))]
        kinds = [Problem, *dict.fromkeys(taken)]
        schemas, self._known = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
        self._by_kind = dict(zip(kinds, schemas, strict=True))
        in_parameters = {kind for route in routes for kind in _parameter_kinds(route)}
        in_bodies = {kind for route in routes for kind in _body_kinds(route)}
        self._taken_apart = {self._name(kind) for kind in in_parameters - in_bodies}

    @property
    def components(self) -> Json:
        """All but the structs whose fields are parameters: those are told one by one."""
        return {name: schema for name, schema in self._known.items() if name not in self._taken_apart}

    def of(self, kind: Any) -> Json:
        return dict(self._by_kind[kind])

    def fields(self, kind: Any) -> Iterator[tuple[str, Json, bool]]:
        """Of a struct: the name and schema of each field, and whether it must be there."""
        struct = self._known[self._name(kind)]
        for name, schema in struct["properties"].items():
            yield name, schema, name in struct["required"]

    def _name(self, kind: Any) -> str:
        name: str = self._by_kind[kind]["$ref"].rpartition("/")[2]
        return name


def _parameter_kinds(route: Route) -> Iterator[Any]:
    yield from (route.shape.path, route.shape.query)


def _body_kinds(route: Route) -> Iterator[Any]:
    if route.takes_body and not route.takes_content:
        yield route.shape.body
    if not _is_response(route.shape.answer):
        yield route.shape.answer
    yield from (route.refusals or {}).values()


def _is_response(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Response)


def _operation(route: Route, schemas: Schemas) -> Json:
    operation: Json = {
        "operationId": getattr(route.handler, "__name__", route.path),
        "summary": route.summary,
        "description": _who_may(route),
        "parameters": list(_parameters(route, schemas)),
        "responses": {**_answers(route, schemas), **_refusals(route, schemas)},
        "security": [] if route.role is None else [{}, {_BEARER: []}],
    }
    if route.takes_body:
        operation["requestBody"] = _body(route, schemas)
    return operation


def _body(route: Route, schemas: Schemas) -> Json:
    if route.takes_content:
        lines = {"type": "string", "description": 'Lines of {"body", "key"?, "id"?, "headers"?}.'}
        return {"required": True, "content": {bodies.JSON: {"schema": {}}, NDJSON: {"schema": lines}}}
    return {
        "required": not route.shape.body_may_be_missing,
        "content": {bodies.JSON: {"schema": schemas.of(route.shape.body)}},
    }


def _who_may(route: Route) -> str:
    return "Open to everybody." if route.role is None else f"Needs the role {route.role}."


def _parameters(route: Route, schemas: Schemas) -> Iterator[Json]:
    for place, kind in (("path", route.shape.path), ("query", route.shape.query)):
        for name, schema, required in schemas.fields(kind):
            yield {"name": name, "in": place, "required": required, "schema": _given(schema)}
    for header in route.headers:
        yield _header(header)


def _given(schema: Json) -> Json:
    """The schema of a parameter that is there: in a path or a query there is no null."""
    given = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return given[0] if given else schema


def _header(header: Header) -> Json:
    return {
        "name": header.name,
        "in": "header",
        "required": False,
        "description": header.description,
        "schema": {"type": "string", "pattern": f"^{header.pattern}$"},
    }


def _answers(route: Route, schemas: Schemas) -> dict[str, Json]:
    return {str(int(status)): _answer(route, status, schemas) for status in route.statuses}


def _answer(route: Route, status: HTTPStatus, schemas: Schemas) -> Json:
    answer = route.shape.answer
    if status is HTTPStatus.NO_CONTENT or (_is_response(answer) and answer.media_type is None):
        return {"description": status.phrase}
    if _is_response(answer):
        return _content(status, answer.media_type, {"type": "string"})
    return _content(status, bodies.JSON, schemas.of(answer))


def _refusals(route: Route, schemas: Schemas) -> dict[str, Json]:
    if route.refusals is None:
        return _problems(route)
    return {
        str(int(status)): _content(status, bodies.JSON, schemas.of(kind))
        for status, kind in route.refusals.items()
    }


def _content(status: HTTPStatus, media_type: str, schema: Json) -> Json:
    return {"description": status.phrase, "content": {media_type: {"schema": schema}}}


def _problems(route: Route) -> dict[str, Json]:
    by_status: dict[int, list[Kind]] = {}
    for kind in dict.fromkeys(possible_problems(route)):
        by_status.setdefault(kind.status, []).append(kind)
    return {str(int(status)): _problem(kinds) for status, kinds in sorted(by_status.items())}


def possible_problems(route: Route) -> Iterator[Kind]:
    """What follows from the shape of a route, and what it names itself."""
    yield from (problems.INVALID, problems.INTERNAL, problems.UNAVAILABLE)
    if route.role is not None:
        yield from (problems.UNAUTHORIZED, problems.FORBIDDEN, problems.TOO_MANY_GUESSES, problems.BUSY)
    if route.takes_body:
        yield from (
            problems.NOT_JSON,
            problems.BODY_TOO_SLOW,
            problems.BODY_TOO_LARGE,
            problems.MEDIA_TYPE_UNSUPPORTED,
        )
    for named in route.problems:
        yield named if isinstance(named, Kind) else problems.KINDS[named]


def _problem(kinds: Iterable[Kind]) -> Json:
    titles = "; ".join(f"{kind.title} ({kind.slug})" for kind in kinds)
    schema = {"$ref": _REFERENCE.format(name=Problem.__name__)}
    return {"description": titles, "content": {problems.MEDIA_TYPE: {"schema": schema}}}
