"""The layers around the pages: who asks, what they may, and how what goes wrong looks."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from backstay.console.cookies import keep_cookie
from backstay.console.files import Files
from backstay.console.guard import PROOF, Guard, Visitor
from backstay.console.live import Broadcasts
from backstay.console.pages import DIALS, NAVIGATION, PAGES, Page
from backstay.console.rendering import Renderer
from backstay.console.samples import Samples
from backstay.console.sign_in import SIGN_IN
from backstay.console.visits import House, Visit, form_of, html, moved, path_names
from backstay.observe import log
from backstay.vault import Vault
from backstay.web import bodies
from backstay.web.common import Common
from backstay.web.paths import Paths
from backstay.web.problems import METHOD_NOT_ALLOWED, UNAUTHORIZED, UNKNOWN_PATH, Refused, as_refusal, mistake

#: No script and no style stands in a page, nothing comes from elsewhere, and nobody may frame it.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

#: With "no-referrer" browsers would send forms with ``Origin: null``, and we could not tell whose they are.
REFERRER: Final = "same-origin"

_STATIC: Final = "static"
_LOOKING: Final = frozenset({"GET", "HEAD"})


def build(common: Common, *, vault: Vault, samples: Samples) -> Console:
    """The console; it needs a running event loop and lives as long as the client in its ports."""
    files = Files()
    doors = (*NAVIGATION, DIALS) if common.ports.dials else NAVIGATION
    shared = {"address": files.address, "navigation": doors}
    house = House(
        common=common,
        guard=Guard(common, vault),
        renderer=Renderer(common.ports.clock, shared),
        samples=samples,
        broadcasts=Broadcasts(),
    )
    return Console(house, files)


class Console:
    """The pages, as an ASGI application."""

    def __init__(self, house: House, files: Files) -> None:
        self._house = house
        self._files = files
        self._paths: Paths[dict[str, Page]] = Paths()
        by_path: dict[str, dict[str, Page]] = {}
        for page in PAGES:
            by_path.setdefault(page.path, {})[page.method] = page
        for path, pages in by_path.items():
            self._paths.add(path, {**pages, **({"HEAD": pages["GET"]} if "GET" in pages else {})})
        self._firsts = {_first(page.path.encode()) for page in PAGES} | {_STATIC.encode()}

    def has(self, raw_path: bytes) -> bool:
        """Whether what is asked for is ours, even if there is nothing at this path."""
        return raw_path == b"/" or _first(raw_path) in self._firsts - {b""}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._answer(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.setdefault("Referrer-Policy", REFERRER)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        raw_path = request.scope["raw_path"]
        visitor = None
        try:
            if _first(raw_path) == _STATIC.encode():
                return self._static(request)
            visitor = await self._house.guard.visitor(request)
            response = await self._visited(request, visitor)
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001  The border: what nobody foresaw is logged, and said.
            response = self._failed(request, error, visitor)
        if visitor is not None and visitor.new_cookie is not None and "set-cookie" not in response.headers:
            keep_cookie(response, request, visitor.new_cookie)
        return response

    def _static(self, request: Request) -> Response:
        if request.method not in _LOOKING:
            raise Refused(METHOD_NOT_ALLOWED, "this path takes GET", headers={"Allow": "GET"})
        return self._files.answer(request.scope["raw_path"].decode("latin-1").removeprefix(f"/{_STATIC}/"))

    async def _visited(self, request: Request, visitor: Visitor) -> Response:
        if request.scope["raw_path"] == SIGN_IN.encode() or visitor.caller is not None:
            return await self._shown(request, visitor)
        # A script would take the page to sign in at for what it asked for.
        is_script = "hx-request" in request.headers or "event-stream" in request.headers.get("accept", "")
        if request.method in _LOOKING and not is_script:
            return _to_sign_in(request)
        raise Refused(UNAUTHORIZED, "sign in first", headers={"WWW-Authenticate": "Bearer"})

    async def _shown(self, request: Request, visitor: Visitor) -> Response:
        found = self._paths.find(request.scope["raw_path"].decode("latin-1"))
        if found is None:
            raise Refused(UNKNOWN_PATH, "there is no such page")
        pages, raw_names = found
        page = pages.get(request.method)
        if page is None:
            allowed = ", ".join(sorted(pages))
            raise Refused(METHOD_NOT_ALLOWED, f"this page takes {allowed}", headers={"Allow": allowed})
        if visitor.caller is not None:
            visitor.caller.check_may(page.role)
        names = path_names(raw_names)
        visit = Visit(house=self._house, request=request, visitor=visitor, names=names)
        if request.method in _LOOKING:
            return await page.handler(visit)
        bytes_max = self._house.common.ports.settings.payload_bytes_max + bodies.MARGIN_BYTES
        form = await form_of(request, bytes_max=bytes_max)
        self._house.guard.check_proof(visitor, form.get(PROOF, ""))
        return await page.handler(
            Visit(house=self._house, request=request, visitor=visitor, names=names, form=form)
        )

    def _failed(self, request: Request, error: Exception, visitor: Visitor | None) -> Response:
        refusal = as_refusal(error)
        if refusal is None:
            log.error("a page failed: %s %r", request.method, request.scope["path"], exc_info=error)
            refusal = mistake()
        text = self._house.renderer.text(
            "problem.html",
            {
                "title": refusal.kind.title,
                "detail": str(refusal)[:1_000],
                "caller": visitor.caller if visitor else None,
                "path": request.url.path,
                "proof": self._house.guard.proof(visitor) if visitor else "",
                "guarded": visitor.guarded if visitor else False,
                "back": _back(request),
            },
        )
        response = html(text, status=refusal.kind.status)
        for name, value in refusal.headers.items():
            response.headers[name] = value
        return response


def _to_sign_in(request: Request) -> Response:
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return moved(SIGN_IN if path == "/" else f"{SIGN_IN}?{urlencode({'to': path})}")


def _back(request: Request) -> str:
    """Where to go from a page that says that something went wrong: one up."""
    parts = request.url.path.strip("/").split("/")
    return "/" + "/".join(quote(part) for part in parts[:-1])


def _first(raw_path: bytes) -> bytes:
    return raw_path.split(b"/", 2)[1] if raw_path.startswith(b"/") else b"?"
