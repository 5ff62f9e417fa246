"""Sign in with a token, and out."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from backstay.console.cookies import keep_cookie
from backstay.console.visits import Visit, moved
from backstay.web.problems import Refused

SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-in/out"


async def show(visit: Visit) -> Response:
    if visit.visitor.caller is not None:
        return moved(_target(visit.query.get("to", "")))
    return visit.page("sign_in.html", to=visit.query.get("to", ""), wrong=None)


async def sign_in(visit: Visit) -> Response:
    to = visit.form.get("to", "")
    if not visit.visitor.guarded:
        return moved(_target(to))
    try:
        session = await visit.house.guard.signed_in(visit.form.get("token", "").strip(), visit.request)
    except Refused as refused:
        return visit.page("sign_in.html", status=refused.kind.status, to=to, wrong=str(refused))
    response = moved(_target(to))
    keep_cookie(response, visit.request, session.cookie)
    return response


async def sign_out(visit: Visit) -> Response:
    """The browser forgets the session. Whoever fears that it was copied revokes its token."""
    response = moved(SIGN_IN)
    keep_cookie(response, visit.request, visit.house.guard.nobody().cookie)
    return response


def _target(to: str) -> str:
    """Where to go then: to a page of ours, whatever a link says."""
    is_path = to.startswith("/") and not to.startswith("//") and "\\" not in to and to.isprintable()
    return to if is_path and not to.startswith(SIGN_IN) else "/"
