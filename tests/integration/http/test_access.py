"""Who is let in: every route, every role, and paths that only look like the open ones."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backstay.api.routes import ROUTES
from backstay.api.routing import Route
from backstay.domain.access import Role
from backstay.web.access import GUESSES_MAX
from tests.support.serving import HOST, Served

OPEN = {"/healthz", "/readyz"}
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND")
NAMES = {"{id}": "1", "{name}": "x", "{key}": "x:1", "{queue}": "q", "{topic}": "t"}


def concrete(route: Route) -> str:
    path = route.path
    for name, value in NAMES.items():
        path = path.replace(name, value)
    return path


def variants(path: str) -> list[str]:
    """Paths that a careless rule may take for ``path``."""
    return [path, f"{path}/", f"{path}%2f", f"{path}%2F", f"/{path}", f"{path}//", f"{path}/.", f"{path}?x=1"]


LOOK_ALIKES = [
    "/healthz/",
    "/healthz%2f",
    "/healthz%2F",
    "//healthz",
    "/healthz//",
    "/healthz/../v1/tasks",
    "/healthz%2f..%2fv1%2ftasks",
    "/v1/tasks/healthz",
    "/v1/tasks/../../healthz",
    "/x-healthz",
    "/healthz.json",
    "/healthz;x",
    "/Healthz",
    "/%68ealthz",
    "/healthz%00",
    "/healthz%20",
    "/readyz/",
    "//readyz",
    "/readyz/healthz",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/nowhere",
    "//",
]


@pytest.fixture
async def locked(served: Served) -> str:
    """The secret of the only token of a store; it may only look."""
    return await served.token("reader", Role.READ)


# Without a token


@pytest.mark.usefixtures("locked")
async def test_no_route_opens_without_a_token(served: Served):
    for route in ROUTES:
        if route.path in OPEN:
            continue
        for path in variants(concrete(route)):
            for method in METHODS:
                assert await served.exactly(method, path) == 401, (method, path)


@pytest.mark.usefixtures("locked")
async def test_no_look_alike_of_an_open_path_opens_without_a_token(served: Served):
    for path in LOOK_ALIKES:
        for method in METHODS:
            assert await served.exactly(method, path) == 401, (method, path)


@pytest.mark.usefixtures("locked")
@pytest.mark.parametrize("path", sorted(OPEN))
async def test_open_paths_are_open_for_looking_only(served: Served, path: str):
    opened = {method for method in METHODS if await served.exactly(method, path) != 401}

    assert opened == {"GET", "HEAD"}
    assert await served.exactly("GET", path) == 200


@pytest.mark.usefixtures("locked")
async def test_a_refusal_says_how_to_be_let_in_and_nothing_else(served: Served):
    known, unknown = await served.get("/v1/tasks"), await served.get("/nowhere")

    assert known.headers["WWW-Authenticate"] == "Bearer"
    assert known.problem == "unauthorized"
    assert (known.status, known.body) == (unknown.status, unknown.body)


@pytest.mark.parametrize(
    "lines",
    [
        ["Authorization: Bearer"],
        ["Authorization: Bearer "],
        ["Authorization: {secret}"],
        ["Authorization: Basic {secret}"],
        ["Authorization: Bearer {secret} x"],
        ["Authorization: Bearer x{secret}"],
        ["Authorization: Bearer {secret}x"],
        ["Authorization: Bearer {secret}", "Authorization: Bearer {secret}"],
        ["Authorization: Bearer {secret}, Bearer {secret}"],
        ["Cookie: token={secret}"],
        ["X-Forwarded-For: 127.0.0.1"],
        ["Authorization: Bearer \xff"],
    ],
)
async def test_only_one_proper_header_opens(served: Served, locked: str, lines: list[str]):
    given = [line.replace("{secret}", locked) for line in lines]

    assert await served.exactly("GET", "/v1/tasks", *given) == 401
    assert await served.exactly("GET", f"/v1/tasks?token={locked}") == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_may_be_written_in_any_case(served: Served, locked: str, scheme: str):
    assert await served.exactly("GET", "/v1/tasks", f"Authorization: {scheme} {locked}") == 200


async def test_a_token_is_never_echoed(served: Served):
    wrong = "bst_this-is-wrong"
    await served.token("reader", Role.READ)

    answer = await served.get("/v1/tasks", token=wrong)

    assert answer.status == 401
    assert wrong.encode() not in answer.body
    assert wrong not in str(answer.headers)


# Roles


async def test_each_role_opens_what_it_should_and_nothing_else(served: Served):
    secrets = {role: await served.token(f"my-{role}", role) for role in Role}

    for route in ROUTES:
        if route.path == "/v1/tasks/{id}/events":
            continue  # The task is not there: what matters is that no 403 or 401 comes; see below.
        for role, secret in secrets.items():
            path = concrete(route).replace("my-", "")
            answer = await served.ask(route.method, path, token=secret)
            may = route.role is None or role.includes(route.role)
            assert (answer.status == 403) is not may, (role, route.method, route.path, answer)
            assert answer.status != 401
            if answer.status == 403:
                assert answer.problem == "forbidden"
                assert f"needs the role {route.role}" in answer.detail


_SETTLEMENTS = ("complete", "abandon", "defer", "renew", "rewrite", "dead-letter")


async def test_the_table_gives_each_route_the_role_it_should_have(served: Served):
    def needed(role: Role | None) -> set[str]:
        return {f"{route.method} {route.path}" for route in ROUTES if route.role is role}

    assert needed(None) == {"GET /healthz", "GET /readyz"}
    message = "POST /v1/queues/{queue}/messages"
    assert needed(Role.SUBMIT) == {
        "POST /v1/tasks",
        "PUT /v1/tasks/{id}",
        message,
        "POST /v1/queues/{queue}/receive",
        *(f"{message}/{{id}}/{how}" for how in _SETTLEMENTS),
        "POST /v1/queues/{queue}/receive-deferred",
        "POST /v1/topics/{topic}/messages",
        "POST /v1/streams/{stream}/events",
    }
    assert needed(Role.ADMIN) == {
        "GET /v1/tokens",
        "POST /v1/tokens",
        "DELETE /v1/tokens/{name}",
    }
    assert all(one.startswith("GET ") for one in needed(Role.READ))
    assert {one for one in needed(Role.OPERATE) if not one.startswith("POST ")} == {
        "PUT /v1/queues/{queue}",
        "PUT /v1/topics/{topic}",
        "PUT /v1/topics/{topic}/subscriptions/{name}",
        "DELETE /v1/queues/{queue}",
        "DELETE /v1/queues/{queue}/dead",
        "DELETE /v1/queues/{queue}/dead/{id}",
        "DELETE /v1/topics/{topic}/subscriptions/{name}",
        "DELETE /v1/streams/{stream}/groups/{group}",
        "PUT /v1/streams/{stream}",
    }


async def test_a_reader_may_watch(served: Served):
    await served.put("/v1/tasks/t", {"workflow": "anything"})
    secret = await served.token("reader", Role.READ)

    assert (await served.ask("HEAD", "/v1/tasks/t/events", token=secret)).status == 200


async def test_with_a_token_the_page_that_asks_does_not_matter(served: Served, locked: str):
    foreign = {"Origin": "https://evil.example", "Host": "evil.example", "Sec_Fetch_Site": "cross-site"}

    assert (await served.get("/v1/tasks", token=locked, **foreign)).status == 200


async def test_what_others_did_to_tokens_is_known_within_a_second(served: Served):
    assert (await served.get("/v1/tasks")).status == 200
    secret = await served.client.create_token("reader", Role.READ)
    served.clock.pass_time(timedelta(seconds=1))
    assert (await served.get("/v1/tasks")).status == 401
    assert (await served.get("/v1/tasks", token=secret)).status == 200

    await served.client.revoke_token("reader")
    served.clock.pass_time(timedelta(seconds=1))

    assert (await served.get("/v1/tasks", token=secret)).status == 401
    assert (await served.get("/v1/tasks")).status == 401


# Guessing


async def test_an_address_that_guesses_is_told_to_wait_and_a_right_token_opens_all_the_same(
    served: Served, locked: str
):
    for number in range(GUESSES_MAX):
        assert (await served.get("/v1/tasks", token=f"guess-{number}")).status == 401

    blocked = await served.get("/v1/tasks", token="one-more")
    assert (blocked.status, blocked.problem) == (429, "too-many-guesses")
    assert blocked.headers["Retry-After"] == "10"
    assert (await served.get("/healthz")).status == 200
    assert (await served.get("/v1/tasks", token=locked)).status == 200

    served.clock.pass_time(timedelta(seconds=10))
    assert (await served.get("/v1/tasks", token="another")).status == 401


async def test_a_right_token_never_counts_as_a_guess(served: Served, locked: str):
    for _ in range(GUESSES_MAX + 1):
        assert (await served.get("/v1/tasks", token=locked)).status == 200

    assert (await served.get("/v1/tasks", token="wrong")).status == 401


# On this machine, without any token


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:1", "127.8.9.10:80", "[::1]", "[::1]:8080"],
)
async def test_this_machine_is_known_by_its_names(served: Served, host: str):
    assert (await served.get("/v1/tasks", Host=host)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "10.0.0.1",
        "0.0.0.0",
        "[::]",
        "::1",
        "2130706433",
        "127.1",
        "localhost:",
        "localhost:http",
        "",
    ],
)
async def test_a_page_behind_another_name_is_refused(served: Served, host: str):
    for route in ROUTES:
        if route.path not in OPEN:
            answer = await served.ask(route.method, concrete(route), Host=host)
            assert (answer.status, answer.problem) == (403, "forbidden"), (host, route.path)


async def test_a_request_must_have_exactly_one_host(served: Served):
    assert await served.exactly("GET", "/v1/tasks", f"Host: {HOST}") in (400, 403)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost:1",
        "http://127.0.0.1",
        "file://",
        "chrome-extension://abc",
        "",
        "http://[",
    ],
)
async def test_a_page_of_another_origin_is_refused(served: Served, origin: str):
    for method in ("GET", "POST"):
        answer = await served.ask(method, "/v1/tasks", Origin=origin)
        assert (answer.status, answer.problem) == (403, "forbidden")


async def test_a_page_of_this_server_is_served(served: Served):
    own = f"http://{HOST}:{served.port}"

    answer = await served.post(
        "/v1/tasks", {"workflow": "anything"}, Origin=own, Sec_Fetch_Site="same-origin"
    )

    assert answer.status == 202


async def test_a_form_of_another_site_changes_nothing(served: Served):
    looked = await served.get("/v1/tasks", Sec_Fetch_Site="cross-site")
    statuses = [
        (await served.post("/v1/tasks", {"workflow": "anything"}, Sec_Fetch_Site=site)).status
        for site in ("cross-site", "same-site", "none")
    ]

    assert looked.status == 200
    assert statuses == [403, 403, 202]
