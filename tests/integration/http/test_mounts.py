"""Applications of the user's own beside the HTTP interface: who reaches them, and what holds for them too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backstay import App
from backstay.api.application import SECURITY_HEADERS
from backstay.api.arm.routes import ROUTES as ARM_ROUTES
from backstay.api.routes import ROUTES
from backstay.domain.access import Role
from backstay.errors import Unavailable, UnknownTask
from backstay.runtime import lifespans
from backstay.web.bodies import MARGIN_BYTES
from tests.integration.http.conftest import Serve
from tests.support.running import comes_true
from tests.support.serving import HOST, Served

PAYLOAD_BYTES_MAX = 1024
BODY_BYTES_MAX = PAYLOAD_BYTES_MAX + MARGIN_BYTES
OWN_POLICY = "default-src 'self'"


class Shop:
    """A Starlette application that remembers what reached it."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.under_way = 0
        self.go_on = asyncio.Event()
        self._inner = Starlette(
            routes=[
                Route("/items", self.items, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
                Route("/caller", self.caller),
                Route("/stream", self.stream),
                Route("/page", self.page),
                Route("/broken", self.broken, methods=["GET", "POST"]),
                WebSocketRoute("/live", self.live),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        self.under_way += 1
        try:
            await self._inner(scope, receive, send)
        finally:
            self.under_way -= 1

    async def items(self, request: Request) -> Response:
        return PlainTextResponse(f"{len(await request.body())} bytes")

    async def caller(self, request: Request) -> Response:
        return JSONResponse({"name": request.state.caller.name, "role": request.state.caller.role})

    async def stream(self, _request: Request) -> Response:
        async def parts() -> AsyncIterator[str]:
            yield "one"
            await self.go_on.wait()
            yield "two"

        return StreamingResponse(parts())

    async def page(self, _request: Request) -> Response:
        return HTMLResponse("<h1>Shop</h1>", headers={"Content-Security-Policy": OWN_POLICY})

    async def broken(self, _request: Request) -> Response:
        raise RuntimeError("the secret of the house")

    async def live(self, _websocket: Any) -> None:
        raise AssertionError("a web socket was opened")


async def body_of(receive: Receive) -> bytes:
    """As an application reads it that has no framework."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that is a function, says how long the body was, and sends no header."""
    body = await body_of(receive)
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": f"{len(body)} bytes".encode()})


def failing(error: Exception) -> ASGIApp:
    async def fails(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise error

    return fails


@pytest.fixture
def shop(app: App) -> Shop:
    shop = Shop()
    app.mount("/api", shop)
    app.mount("/bare", bare)
    return shop


@pytest.fixture
async def served(shop: Shop, serve: Serve) -> AsyncIterator[Served]:
    async with serve(payload_bytes_max=PAYLOAD_BYTES_MAX, inline_bytes_max=PAYLOAD_BYTES_MAX) as served:
        yield served


# Which requests reach it


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/api", "/api/"),
        ("/api/", "/api/"),
        ("/api/items", "/api/items"),
        ("/api/items?colour=red", "/api/items"),
        ("/api/a%20b", "/api/a b"),
        ("/api/../v1/tasks", "/api/../v1/tasks"),
        ("/api/healthz", "/api/healthz"),
    ],
)
async def test_what_lies_below_the_path_reaches_the_application(
    served: Served, shop: Shop, target: str, path: str
):
    await served.exactly("GET", target)

    [scope] = shop.scopes
    assert (scope["path"], scope["root_path"]) == (path, "/api")


@pytest.mark.parametrize(
    "target",
    [
        "/apix",
        "/apix/items",
        "/ap",
        "/API/items",
        "//",
        "//api/items",
        "/./api/items",
        "/v1/../api/items",
        "/v1/api/items",
        "/%61pi/items",
        "/ap%69",
        "/%2Fapi/items",
        "/api%2Fitems",
        "/api%2fitems",
        "/api%00/items",
        "/api%20/items",
        "/api;x/items",
    ],
)
async def test_what_only_looks_as_if_it_lay_there_does_not(served: Served, shop: Shop, target: str):
    assert await served.exactly("GET", target) == 404
    assert shop.scopes == []


async def test_the_routes_of_the_interface_are_where_they_were(served: Served, shop: Shop):
    statuses = [(await served.get(path)).status for path in ("/v1/tasks", "/healthz", "/docs", "/metrics")]

    assert statuses == [200] * 4
    assert shop.scopes == []


async def test_a_path_may_have_more_than_one_name(app: App, serve: Serve):
    shop = Shop()
    app.mount("/shop/api", shop)
    async with serve() as served:
        inside, outside = await served.get("/shop/api/items"), await served.get("/shop/items")

    assert (inside.status, outside.status, outside.problem) == (200, 404, "unknown-path")
    assert [scope["root_path"] for scope in shop.scopes] == ["/shop/api"]


async def test_the_description_of_the_interface_does_not_list_it(served: Served):
    document = (await served.get("/openapi.json")).json

    assert set(document["paths"]) == {route.path for route in (*ROUTES, *ARM_ROUTES)}


@pytest.mark.parametrize("path", ["/api/live", "/api/items"])
async def test_there_are_no_web_sockets_here_either(served: Served, shop: Shop, path: str):
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await served.session.ws_connect(f"{served.url}{path}")

    assert {scope["type"] for scope in shop.scopes} <= {"http"}


# Who may


@pytest.mark.parametrize(
    ("role", "method", "status"),
    [
        (None, "GET", 401),
        (None, "OPTIONS", 401),
        (None, "POST", 401),
        (Role.READ, "GET", 200),
        (Role.READ, "HEAD", 200),
        (Role.READ, "OPTIONS", 405),
        (Role.READ, "POST", 403),
        (Role.READ, "PUT", 403),
        (Role.READ, "PATCH", 403),
        (Role.READ, "DELETE", 403),
        (Role.READ, "PROPFIND", 403),
        (Role.SUBMIT, "GET", 200),
        (Role.SUBMIT, "POST", 200),
        (Role.SUBMIT, "PUT", 200),
        (Role.SUBMIT, "PATCH", 200),
        (Role.SUBMIT, "DELETE", 200),
        (Role.ADMIN, "DELETE", 200),
    ],
)
async def test_who_reads_may_look_and_who_submits_may_do_anything_else(
    served: Served, shop: Shop, role: Role | None, method: str, status: int
):
    secret = await served.token("somebody", role or Role.ADMIN)

    answer = await served.ask(method, "/api/items", token=None if role is None else secret)

    assert answer.status == status
    assert len(shop.scopes) == (0 if status in {401, 403} else 1)


async def test_a_refusal_is_a_problem_as_everywhere(served: Served, shop: Shop):
    reader = await served.token("reader", Role.READ)

    unknown, known = await served.get("/api/items"), await served.post("/api/items", token=reader)

    assert (unknown.problem, unknown.headers["WWW-Authenticate"]) == ("unauthorized", "Bearer")
    assert (known.problem, "needs the role submit" in known.detail) == ("forbidden", True)
    assert shop.scopes == []


@pytest.mark.parametrize(
    ("method", "line"),
    [
        ("GET", "Host: shop.example"),
        ("GET", "Origin: http://shop.example"),
        ("POST", "Origin: null"),
        ("POST", "Sec-Fetch-Site: cross-site"),
        ("DELETE", "Sec-Fetch-Site: same-site"),
    ],
)
async def test_without_a_token_pages_of_strangers_do_not_reach_it(
    served: Served, shop: Shop, method: str, line: str
):
    name, _, value = line.partition(": ")

    answer = await served.ask(method, "/api/items", **{name: value})

    assert (answer.status, answer.problem) == (403, "forbidden")
    assert shop.scopes == []


async def test_the_application_learns_who_calls(served: Served):
    before = (await served.get("/api/caller")).json
    secret = await served.token("till", Role.SUBMIT)
    after = (await served.get("/api/caller", token=secret)).json

    assert before == {"name": "loopback", "role": "admin"}
    assert after == {"name": "token:till", "role": "submit"}


# How long a body may be, and how long it may take


async def in_pieces(size: int) -> AsyncIterator[bytes]:
    """A body whose length nobody announces."""
    for _ in range(0, size, 1024):
        yield b"x" * 1024


async def stalling() -> AsyncIterator[bytes]:
    yield b"x"
    await asyncio.Event().wait()


@pytest.mark.parametrize("path", ["/api/items", "/bare"])
async def test_a_body_may_be_as_long_as_it_may(served: Served, path: str):
    announced = await served.post(path, data=b"x" * BODY_BYTES_MAX)
    chunked = await served.post(path, data=in_pieces(BODY_BYTES_MAX))

    assert (announced.status, chunked.status) == (200, 200)
    assert announced.body == chunked.body == f"{BODY_BYTES_MAX} bytes".encode()


@pytest.mark.parametrize("path", ["/api/items", "/bare"])
async def test_a_body_that_is_announced_as_too_long_does_not_reach_the_application(
    served: Served, shop: Shop, path: str
):
    answer = await served.post(path, data=b"x" * (BODY_BYTES_MAX + 1))

    assert (answer.status, answer.problem) == (413, "body-too-large")
    assert "payload_bytes_max" in answer.detail
    assert shop.scopes == []


async def test_a_body_that_turns_out_too_long_is_refused_by_starlette_in_its_own_words(served: Served):
    answer = await served.post("/api/items", data=in_pieces(BODY_BYTES_MAX + 1))

    assert (answer.status, answer.headers["Content-Type"]) == (413, "text/plain; charset=utf-8")
    assert b"payload_bytes_max" in answer.body


async def test_a_body_that_turns_out_too_long_is_a_problem_where_nobody_else_answers(served: Served):
    answer = await served.post("/bare", data=in_pieces(BODY_BYTES_MAX + 1))

    assert (answer.status, answer.problem) == (413, "body-too-large")


@pytest.mark.parametrize("body", [b"", b"x"])
@pytest.mark.parametrize("path", ["/api/items", "/bare"])
async def test_a_body_that_stalls_is_given_up(
    served: Served, monkeypatch: pytest.MonkeyPatch, path: str, body: bytes
):
    monkeypatch.setattr("backstay.web.bodies.BODY_SECONDS", 0.05)

    assert await served.exactly("POST", path, "Content-Length: 10", body=body) == 408


async def test_a_body_that_stalls_is_a_problem_where_nobody_else_answers(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("backstay.web.bodies.BODY_SECONDS", 0.05)

    answer = await served.post("/bare", data=stalling())

    assert (answer.status, answer.problem) == (408, "body-too-slow")


async def test_once_the_body_is_there_the_application_takes_the_time_it_takes(
    served: Served, shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("backstay.web.bodies.BODY_SECONDS", 0.05)
    async with served.session.get(f"{served.url}/api/stream") as answer:
        await asyncio.sleep(0.2)  # Longer than a body may take: it is this that must pass.
        shop.go_on.set()

        assert await answer.text() == "onetwo"


# How much


@pytest.mark.parametrize(
    ("method", "status"), [("POST", 429), ("PUT", 429), ("GET", 200), ("PATCH", 200), ("DELETE", 200)]
)
async def test_while_too_many_tasks_wait_nothing_is_handed_in_here_either(
    serve: Serve, shop: Shop, method: str, status: int
):
    async with serve(backlog_limit=1) as served:
        await served.put("/v1/tasks/t", {"workflow": "anything"})

        answer = await served.ask(method, "/api/items")

    assert answer.status == status
    assert len(shop.scopes) == (status == 200)
    if status == 429:
        assert (answer.problem, answer.headers["Retry-After"]) == ("overloaded", "1")


async def test_requests_under_way_here_count_as_any_others(serve: Serve, shop: Shop):
    async with serve(connections_max=1) as served, AsyncExitStack() as stack:
        await stack.enter_async_context(served.session.get(f"{served.url}/api/stream"))
        for path in ("/api/items", "/v1/tasks"):
            refused = await served.get(path)
            assert (refused.status, refused.problem, refused.headers["Retry-After"]) == (503, "busy", "1")
        assert (await served.get("/healthz")).status == 200
        assert len(shop.scopes) == 1

        shop.go_on.set()
        await comes_true(lambda: shop.under_way == 0)

        assert (await served.get("/api/items")).status == 200


# What comes back


async def test_a_stream_is_sent_as_it_is_made(served: Served, shop: Shop):
    async with served.session.get(f"{served.url}/api/stream") as answer:
        first = await answer.content.readany()
        shop.go_on.set()
        rest = await answer.content.read()

    assert (first, rest) == (b"one", b"two")


@pytest.mark.parametrize("path", ["/api/items", "/api/nowhere", "/api/broken", "/bare"])
async def test_every_answer_has_the_security_headers(served: Served, path: str):
    answer = await served.get(path)

    assert {name: answer.headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS


async def test_a_policy_of_the_applications_own_wins(served: Served):
    answer = await served.get("/api/page")

    policies = [value for name, value in answer.headers.items() if name.lower() == "content-security-policy"]
    assert policies == [OWN_POLICY]
    assert answer.headers["X-Frame-Options"] == "DENY"


async def test_an_application_that_fails_is_a_500_and_is_logged_once(
    served: Served, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING):
        answer = await served.get("/api/broken")

    assert (answer.status, answer.body) == (500, b"Internal Server Error")
    [record] = caplog.records
    assert "GET '/api/broken'" in record.getMessage()
    assert record.exc_info is not None
    assert "the secret of the house" in str(record.exc_info[1])


async def test_an_application_that_fails_leaves_connection_and_server_as_they_were(served: Served):
    reader, writer = await asyncio.open_connection(HOST, served.port)
    statuses = []
    for path in ("/api/broken", "/api/items"):
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        async with asyncio.timeout(5):
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
        statuses.append(int(head.split()[1]))
    writer.close()
    await writer.wait_closed()

    assert statuses == [500, 200]


@pytest.mark.parametrize(
    ("error", "status", "problem"),
    [(RuntimeError("the secret of the house"), 500, "internal"), (UnknownTask("t"), 404, "unknown-task")],
)
async def test_an_error_that_the_application_does_not_answer_is_a_problem(
    app: App, serve: Serve, error: Exception, status: int, problem: str
):
    app.mount("/failing", failing(error))
    async with serve() as served:
        answer = await served.get("/failing")

    assert (answer.status, answer.problem) == (status, problem)
    assert b"secret" not in answer.body


async def test_an_answer_that_breaks_off_is_cut(app: App, serve: Serve):
    async def breaks_off(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError

    app.mount("/failing", breaks_off)
    async with serve() as served:
        with pytest.raises(aiohttp.ClientPayloadError):
            await served.get("/failing")

        assert (await served.get("/healthz")).status == 200


# Callers who leave


async def hang_up(served: Served, head: str, *, once: Callable[[], object], read: bytes = b"") -> None:
    """Send a head, read the answer as far as ``read``, and leave as soon as ``once`` holds."""
    reader, writer = await asyncio.open_connection(HOST, served.port)
    writer.write(f"{head}\r\nHost: {HOST}\r\n\r\n".encode())
    if read:
        async with asyncio.timeout(5):
            await reader.readuntil(read)
    await comes_true(once)
    writer.close()
    await writer.wait_closed()


async def test_who_leaves_while_sending_a_body_does_no_harm(
    served: Served, shop: Shop, caplog: pytest.LogCaptureFixture
):
    await hang_up(served, "POST /api/items HTTP/1.1\r\nContent-Length: 10", once=lambda: shop.under_way == 1)
    await comes_true(lambda: shop.under_way == 0)

    assert (await served.get("/api/items")).status == 200
    assert caplog.records == []


async def test_who_leaves_while_an_answer_is_streamed_does_no_harm(
    served: Served, shop: Shop, caplog: pytest.LogCaptureFixture
):
    await hang_up(served, "GET /api/stream HTTP/1.1", once=lambda: shop.under_way == 1, read=b"one")
    await comes_true(lambda: shop.under_way == 0)

    assert (await served.get("/api/items")).status == 200
    assert caplog.records == []


# Before the first request and after the last


Lifespan = Callable[[Any], Any]


def with_lifespan(lifespan: Lifespan) -> Starlette:
    async def state(request: Request) -> Response:
        return JSONResponse({"caller": request.state.caller, "books": getattr(request.state, "books", None)})

    return Starlette(routes=[Route("/", state)], lifespan=lifespan)


def noting(happened: list[str], name: str, *, fails: bool = False) -> Lifespan:
    @asynccontextmanager
    async def lifespan(_app: Any) -> AsyncIterator[dict[str, Any]]:
        happened.append(f"{name} starts")
        if fails:
            raise RuntimeError("no shelf")
        yield {"books": 7, "caller": "somebody else"}
        happened.append(f"{name} ends")

    return lifespan


async def answer_of(application: Callable[..., Awaitable[None]]) -> Any:
    """The JSON that it answers to a request of a caller named ``me``."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "state": {"caller": "me"}}
    await application(scope, receive, send)
    return msgspec.json.decode(b"".join(message.get("body", b"") for message in sent))


def started(
    mounts: Mapping[str, ASGIApp], *, unless: asyncio.Event | None = None
) -> AbstractAsyncContextManager[dict[str, ASGIApp]]:
    return lifespans.started(mounts, unless=unless or asyncio.Event())


async def test_applications_start_in_the_order_of_their_mounts_and_end_in_the_other():
    happened: list[str] = []
    mounts = {f"/{name}": with_lifespan(noting(happened, name)) for name in ("a", "b")}

    async with started(mounts) as applications:
        assert happened == ["a starts", "b starts"]
        assert list(applications) == ["/a", "/b"]

    assert happened == ["a starts", "b starts", "b ends", "a ends"]


async def test_what_an_application_put_aside_at_its_start_is_there_at_every_request_but_never_as_its_caller():
    async with started({"/a": with_lifespan(noting([], "a"))}) as applications:
        answers = [await answer_of(applications["/a"]) for _ in range(2)]

    assert answers == [{"caller": "me", "books": 7}] * 2


async def test_one_that_does_not_start_is_named_and_those_that_did_are_ended():
    happened: list[str] = []
    mounts = {
        "/a": with_lifespan(noting(happened, "a")),
        "/b": with_lifespan(noting(happened, "b", fails=True)),
    }

    with pytest.raises(Unavailable, match="the application mounted at '/b' did not start"):
        async with started(mounts):
            raise AssertionError("it started")

    assert happened == ["a starts", "b starts", "a ends"]


def as_partial(application: ASGIApp) -> ASGIApp:
    async def call(_prefix: str, scope: Scope, receive: Receive, send: Send) -> None:
        await application(scope, receive, send)

    return partial(call, "shop")


def as_passed_on(application: ASGIApp) -> ASGIApp:
    """As a decorator does it that knows nothing of ASGI."""

    async def call(*arguments: Any) -> None:
        await application(*arguments)

    return call


def as_plain_function(application: ASGIApp) -> ASGIApp:
    def call(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return application(scope, receive, send)

    return call


@pytest.mark.parametrize("shaped", [as_partial, as_passed_on, as_plain_function])
async def test_whatever_can_be_called_as_an_application_is_started_as_one(
    shaped: Callable[[ASGIApp], ASGIApp],
):
    happened: list[str] = []
    application = shaped(with_lifespan(noting(happened, "a")))

    async with started({"/a": application}) as applications:
        assert (await answer_of(applications["/a"]))["books"] == 7

    assert happened == ["a starts", "a ends"]


async def test_one_that_knows_no_lifespan_is_served_all_the_same():
    async def knows_requests_only(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await JSONResponse("hello")(scope, receive, send)

    async with started({"/a": knows_requests_only}) as applications:
        assert await answer_of(applications["/a"]) == "hello"


async def test_one_that_does_not_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    @asynccontextmanager
    async def endless(_app: Any) -> AsyncIterator[None]:
        yield
        await asyncio.Event().wait()

    monkeypatch.setattr(lifespans, "SHUTDOWN_SECONDS", 0.05)
    async with started({"/a": with_lifespan(endless)}):
        pass

    [record] = caplog.records
    assert "the application mounted at '/a' did not end in time" in record.getMessage()


async def raises_at_once(_scope: Scope, receive: Receive, _send: Send) -> None:
    await receive()
    raise RuntimeError("no database")


async def never_starts(_scope: Scope, receive: Receive, _send: Send) -> None:
    await receive()
    await asyncio.Event().wait()


async def test_one_that_raises_instead_of_starting_has_not_started(caplog: pytest.LogCaptureFixture):
    with pytest.raises(Unavailable, match="the application mounted at '/a' did not start; the log says why"):
        async with started({"/a": raises_at_once}):
            raise AssertionError("it started")

    assert "no database" in caplog.text


async def test_one_that_takes_too_long_to_start_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lifespans, "STARTUP_SECONDS", 0.05)

    with pytest.raises(Unavailable, match="the application mounted at '/a' did not start within"):
        async with started({"/a": never_starts}):
            raise AssertionError("it started")


async def test_who_is_told_to_stop_waits_for_no_start_and_serves_what_has_started():
    happened: list[str] = []
    stop = asyncio.Event()

    async def told_to_stop_meanwhile(scope: Scope, receive: Receive, send: Send) -> None:
        stop.set()
        await never_starts(scope, receive, send)

    mounts: dict[str, ASGIApp] = {
        "/a": with_lifespan(noting(happened, "a")),
        "/b": told_to_stop_meanwhile,
        "/c": with_lifespan(noting(happened, "c")),
    }

    async with asyncio.timeout(10), started(mounts, unless=stop) as applications:
        assert list(applications) == ["/a"]

    assert happened == ["a starts", "a ends"]


async def test_who_was_told_to_stop_before_starts_nothing():
    stop = asyncio.Event()
    stop.set()

    async with started({"/a": never_starts}, unless=stop) as applications:
        assert applications == {}


async def fails_politely(_scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "the shelf is empty"})


async def cancels_itself(_scope: Scope, receive: Receive, _send: Send) -> None:
    await receive()
    raise asyncio.CancelledError


async def ends_at_once(_scope: Scope, receive: Receive, _send: Send) -> None:
    await receive()


@pytest.mark.parametrize(
    ("application", "said"),
    [
        (fails_politely, "the shelf is empty"),
        (cancels_itself, "it was cancelled"),
        (ends_at_once, "it ended without having started"),
    ],
)
async def test_why_one_did_not_start_is_in_the_log(
    caplog: pytest.LogCaptureFixture, application: ASGIApp, said: str
):
    with pytest.raises(Unavailable, match="did not start"):
        async with started({"/a": application}):
            raise AssertionError("it started")

    [record] = caplog.records
    assert record.getMessage() == f"the application mounted at '/a' did not start: {said}"


async def test_that_one_did_not_end_well_is_in_the_log(caplog: pytest.LogCaptureFixture):
    async def ends_badly(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.failed", "message": "the till is stuck"})

    async with started({"/a": ends_badly}):
        pass

    [record] = caplog.records
    assert record.getMessage() == "the application mounted at '/a' did not end well: the till is stuck"
