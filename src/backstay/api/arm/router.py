"""Finds the route of a request, whatever the letter case of its path."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from backstay.api.arm.routes import PROVIDER, ROUTES
from backstay.api.arm.versions import check_version
from backstay.api.calls import Service
from backstay.api.parameters import query_pairs
from backstay.api.routing import Resource, resources
from backstay.web.paths import Paths
from backstay.web.problems import UNKNOWN_PATH, Refused


def arm_router(service: Service) -> ASGIApp:
    """The routes below ``/subscriptions``. Each wants an api-version, before anything else is looked at."""
    paths: Paths[tuple[str, Resource]] = Paths()
    for path, resource in resources(ROUTES, service).items():
        paths.add(path.lower(), (path, resource))

    async def by_raw_path(scope: Scope, receive: Receive, send: Send) -> None:
        raw_path = scope["raw_path"].decode("latin-1")
        found = paths.find(raw_path.lower())
        if found is None:
            raise Refused(UNKNOWN_PATH, "there is nothing at this path")
        (path, resource), _ = found
        check_version(_versions(scope), any_date=path == PROVIDER.path)
        names = dict(_names(path, raw_path))
        await resource({**scope, "path_params": names}, receive, send)

    return by_raw_path


def _versions(scope: Scope) -> list[str]:
    return [value for name, value in query_pairs(scope["query_string"]) if name == "api-version"]


def _names(path: str, raw_path: str) -> Iterable[tuple[str, str]]:
    """What the names in ``path`` stand for, as it was written."""
    for part, written in zip(path.split("/"), raw_path.split("/"), strict=True):
        if part.startswith("{"):
            yield part[1:-1], written
