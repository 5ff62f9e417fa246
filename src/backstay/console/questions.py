"""What is asked before something is done: what that means, why it is wanted, and what was done before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from starlette.responses import Response

from backstay.console.visits import Visit
from backstay.domain.audit import Entry
from backstay.store.records import AuditFilter
from backstay.web.problems import UNKNOWN_PATH, Refused

TRAIL_MAX: Final = 10

Done = TypeVar("Done", bound=Callable[..., Awaitable[object]])


class Act(msgspec.Struct, Generic[Done], frozen=True, kw_only=True):
    """What can be done to something: its button, what is asked before, what it means, and how it is done."""

    name: str
    question: str
    says: str
    done: Done


Known = TypeVar("Known", bound=Act[Any])


def act_in(visit: Visit, acts: Mapping[str, Known]) -> Known:
    """What the path says is to be done. Raises Refused."""
    act = acts.get(visit.names["act"])
    if act is None:
        raise Refused(UNKNOWN_PATH, "there is no such action")
    return act


async def asked(
    visit: Visit,
    title: str,
    *,
    says: str,
    button: str,
    back: str,
    target: str | None = None,
    kind: str = "",
) -> Response:
    """The question as a page, or as the part that a dialog shows.

    ``target``: whose trail is shown, if it has one; ``kind``: what the button looks like.
    """
    return visit.page(
        "parts/ask.html" if visit.wants_part else "ask.html",
        title=title,
        says=says,
        button=button,
        kind=kind,
        trail=[] if target is None else await _trail(visit, target),
        back=back,
        action=_action(visit),
    )


async def _trail(visit: Visit, target: str) -> list[Entry]:
    page = await visit.client.audit(AuditFilter(target=target, limit=TRAIL_MAX))
    return page.items


def _action(visit: Visit) -> str:
    """Where the answer goes: to where the question came from."""
    url = visit.request.url
    return f"{url.path}?{url.query}" if url.query else url.path
