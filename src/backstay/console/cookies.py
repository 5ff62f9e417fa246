"""The cookie that holds a session."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from backstay.console.sessions import SESSION_LENGTH

_COOKIE: Final = "backstay"


def cookie_name(scope: Scope) -> str:
    """Its own for each port: cookies of a host come to all of them."""
    server = scope.get("server")
    return f"{_COOKIE}-{server[1]}" if server else _COOKIE


def keep_cookie(response: Response, request: Request, cookie: str) -> None:
    """Have the browser keep a session: no script reads it, and no other site sends it along."""
    # Behind a proxy that speaks TLS for us only the browser knows.
    came_safely = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    response.set_cookie(
        cookie_name(request.scope),
        cookie,
        max_age=int(SESSION_LENGTH.total_seconds()),
        path="/",
        secure=came_safely,
        httponly=True,
        samesite="strict",
    )
