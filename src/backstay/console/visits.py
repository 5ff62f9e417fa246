"""What a page is given: one request, taken apart, and what it may answer with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from backstay.client import Client
from backstay.console.guard import Guard, Visitor
from backstay.console.live import Broadcasts, EventStream, Fragment
from backstay.console.rendering import Renderer, digest
from backstay.console.samples import Samples
from backstay.domain.access import Role
from backstay.errors import InvalidInput
from backstay.web import bodies
from backstay.web.access import ANYBODY, Caller
from backstay.web.common import Common
from backstay.web.problems import MEDIA_TYPE_UNSUPPORTED, Refused

FORM: Final = "application/x-www-form-urlencoded"
FIELDS_MAX: Final = 50
KEY_DIGITS_MAX: Final = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """What all visits share."""

    common: Common
    guard: Guard
    renderer: Renderer
    samples: Samples
    broadcasts: Broadcasts


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One request for a page."""

    house: House
    request: Request
    visitor: Visitor
    # What the names in the page's path stand for.
    names: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def caller(self) -> Caller:
        return self.visitor.caller or ANYBODY

    @property
    def client(self) -> Client:
        """The client, acting as whoever asks."""
        return self.house.common.ports.client.acting_as(self.caller.name)

    @property
    def may_operate(self) -> bool:
        role = self.caller.role
        return role is not None and role.includes(Role.OPERATE)

    @property
    def wants_events(self) -> bool:
        """Whether the page is asked for as it changes."""
        return "text/event-stream" in self.request.headers.get("accept", "")

    @property
    def wants_part(self) -> bool:
        """Whether a script asks, for what goes into the page that is there already."""
        return "hx-request" in self.request.headers

    @cached_property
    def query(self) -> dict[str, str]:
        """The parameters that say something; of one that is given twice the last."""
        return {name: value for name, value in self.request.query_params.items() if value.strip()}

    # Answers

    def page(self, template: str, *, status: int = HTTPStatus.OK, **values: Any) -> Response:
        return html(self.text(template, **values), status=status)

    def text(self, template: str, **values: Any) -> str:
        return self.house.renderer.text(
            template,
            {
                "caller": self.caller,
                "guarded": self.visitor.guarded,
                "may_operate": self.may_operate,
                "proof": self.house.guard.proof(self.visitor),
                "path": self.request.url.path,
                **values,
            },
        )

    def part(self, template: str, **values: Any) -> Markup:
        """What goes into a page, and is the same for all with the same role."""
        text = self.house.renderer.text(template, {"may_operate": self.may_operate, **values})
        return Markup(text)  # noqa: S704  A template made it, and escaped what is not its own.

    def live(self, fragment: Fragment, *, about: str, every: timedelta) -> Response:
        """What ``fragment`` gives, again whenever it is another. All with the same role see the same."""
        seen = self.query.get("seen", "")
        key = f"{about} {self.caller.role}"
        on = partial(self.house.broadcasts.on, key, fragment, every=every)
        return EventStream(self.house.common, self.caller, on, seen=seen)

    def mark(self, text: str) -> str:
        """What ``live`` is told as seen, so that nothing comes twice."""
        return digest(text)


def html(text: str, *, status: int = HTTPStatus.OK) -> Response:
    return Response(text, status_code=status, media_type="text/html")


def moved(path: str) -> Response:
    """After a change: look at what came of it."""
    return Response(status_code=HTTPStatus.SEE_OTHER, headers={"Location": path})


Handler = Callable[[Visit], Awaitable[Response]]


async def form_of(request: Request, *, bytes_max: int) -> dict[str, str]:
    """The fields of a form. Raises Refused, InvalidInput."""
    if bodies.media_type(request) != FORM:
        raise Refused(MEDIA_TYPE_UNSUPPORTED, f"send a form, as {FORM}; programs use /v1")
    body = await bodies.read(request, bytes_max=bytes_max)
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise InvalidInput(f"the form cannot be read: {error}") from error
    if any("\0" in value for _, value in pairs):
        raise InvalidInput("the form holds NUL, which not every store can keep")
    return dict(pairs)


def reason_in(form: Mapping[str, str]) -> str | None:
    """Why, if that was said."""
    return form.get("reason", "").strip() or None


def number_in(query: Mapping[str, str], name: str) -> int | None:
    """A whole number from 1 on that fits a key. Raises InvalidInput."""
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= KEY_DIGITS_MAX and int(text) > 0):
        raise InvalidInput(f"{name} is {text[:40]!r}; it must be a whole number from 1 on")
    return int(text)


def path_names(raw: Mapping[str, str]) -> dict[str, str]:
    """Decoded once: what is left of a percent sign after this is part of the name. Raises InvalidInput."""
    try:
        return {name: unquote(text, errors="strict") for name, text in raw.items()}
    except UnicodeDecodeError as error:
        raise InvalidInput("the path is not UTF-8") from error
