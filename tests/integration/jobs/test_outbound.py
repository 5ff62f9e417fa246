"""Requests of jobs that would reach what is not public: none leaves, however the address is written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from backstay import App, Outbound
from backstay.domain.jobs.messages import ADDRESS_REFUSED
from backstay.domain.outbound import read_outbound
from backstay.errors import HttpUnavailable
from backstay.jobs.http_action import HttpAction
from backstay.jobs.http_request import HttpRequest, NotSent, checked_target
from backstay.jobs.oauth import Grant
from backstay.jobs.tried import Tried
from tests.support.names import Rebinding, rebinding
from tests.support.service import HttpService, http_service, says

LOCAL = "127.0.0.1"
OTHER = "127.0.0.2"


@pytest.fixture
async def guarded() -> AsyncIterator[HttpAction]:
    made = HttpAction(timeout=timedelta(seconds=5), connections=4, outbound=Outbound())
    yield made
    await made.close()


@pytest.fixture
async def only_local() -> AsyncIterator[HttpAction]:
    """May reach 127.0.0.1; 127.0.0.2 stands for what is inside."""
    made = HttpAction(timeout=timedelta(seconds=5), connections=4, outbound=Outbound((LOCAL,)))
    yield made
    await made.close()


async def ask(action: HttpAction, url: str) -> Tried:
    return await action.send(HttpRequest(method="GET", url=url, body=None, theirs={}, ours={}))


@pytest.mark.parametrize(
    "host",
    [
        LOCAL,
        OTHER,
        "localhost",
        "0x7f000001",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[fd00::1]",
        "①②⑦.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
    ],
)
async def test_no_spelling_of_an_inner_address_is_reached(
    guarded: HttpAction, service: HttpService, host: str
):
    tried = await ask(guarded, f"http://{host}:{service.port}/")

    assert not tried.succeeded
    assert ADDRESS_REFUSED in tried.message
    assert service.asked == []


@pytest.mark.parametrize("host", ["2130706433", "0177.0.0.1", "127.1", "0"])
async def test_a_number_that_is_no_whole_address_is_not_even_resolved(
    guarded: HttpAction, service: HttpService, host: str
):
    tried = await ask(guarded, f"http://{host}:{service.port}/")

    assert "The address cannot be read" in tried.message
    assert service.asked == []


async def test_the_history_says_why_and_what_would_allow_it(guarded: HttpAction, service: HttpService):
    tried = await ask(guarded, f"http://{LOCAL}:{service.port}/")

    assert ADDRESS_REFUSED in tried.message
    assert "outbound_allow" in tried.message


async def test_a_redirect_is_checked_as_the_first_address_was(only_local: HttpAction, service: HttpService):
    service.answers = [says(302, Location=f"http://{OTHER}:{service.port}/inner")]

    tried = await ask(only_local, f"http://{LOCAL}:{service.port}/")

    assert ADDRESS_REFUSED in tried.message
    assert len(service.asked) == 1


@pytest.mark.parametrize("status", [302, 307])
async def test_where_a_redirect_leads_nobody_sees_what_the_job_shows_of_itself(
    service: HttpService, status: int
):
    """A token, cookies and keys of its own are for the host that the job names."""
    own = {
        "Cookie": "session=abc",
        "X-Api-Key": "k",
        "Proxy-Authorization": "Basic x",
        "Accept": "text/plain",
    }
    grant = Grant(tenant="t", audience="a", client_id="c", secret="hunter2")
    async with (
        http_service(says(200, '{"access_token": "t0ken", "expires_in": 3600}')) as tokens,
        http_service() as elsewhere,
    ):
        service.answers = [says(status, Location="/again"), says(status, Location=f"{elsewhere.url}/")]
        action = HttpAction(
            timeout=timedelta(seconds=5), connections=4, outbound=Outbound((LOCAL,)), authority=tokens.url
        )
        request = HttpRequest(method="POST", url=f"{service.url}/", body=b"b", theirs=own, ours={"x-ms": "j"})
        tried = await action.send(request, grant)
        await action.close()

    assert tried.succeeded
    assert service.headers("Authorization") == ["Bearer t0ken"] * 2
    assert service.headers("X-Api-Key") == ["k", "k"]
    [seen] = elsewhere.asked
    assert {"Authorization", *own} & set(seen.headers) == {"Accept"}
    assert "t0ken" not in str(seen.headers)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Rebinding:
    return rebinding(monkeypatch, LOCAL, OTHER)


async def test_a_name_that_changes_its_mind_is_checked_again_at_every_connection(
    only_local: HttpAction, service: HttpService, names: Rebinding
):
    service.answers = [says(200, Connection="close"), says(200)]
    only_local._open_session().connector._use_dns_cache = False  # type: ignore[union-attr]

    first = await ask(only_local, f"http://rebind.test:{service.port}/")
    second = await ask(only_local, f"http://rebind.test:{service.port}/")

    assert first.succeeded
    assert ADDRESS_REFUSED in second.message
    assert names.asked == 2
    assert len(service.asked) == 1


async def test_a_proxy_that_the_environment_names_is_not_asked(
    only_local: HttpAction, service: HttpService, monkeypatch: pytest.MonkeyPatch
):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, service.url)

    # The guard would let it be asked, and it would ask for us what the guard does not let us.
    tried = await ask(only_local, f"http://{OTHER}:{service.port}/")

    assert ADDRESS_REFUSED in tried.message
    assert service.asked == []


async def test_the_proxy_of_the_settings_is_asked_and_only_for_what_may_be_reached(service: HttpService):
    proxied = HttpAction(
        timeout=timedelta(seconds=5), connections=4, outbound=Outbound(), proxy=service.url.rstrip("/")
    )
    service.answers = [says(200), says(302, Location="http://10.0.0.1/inner")]

    outside = await ask(proxied, "http://example.test/")
    inside = [
        await ask(proxied, f"http://{host}/") for host in ("127.0.0.1", "2130706433", "①②⑦.1", "localhost")
    ]
    moved = await ask(proxied, "http://example.test/moved")
    await proxied.close()

    assert outside.succeeded
    assert [ADDRESS_REFUSED in one.message for one in [*inside, moved]] == [True] * 5
    assert len(service.asked) == 2


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org@127.0.0.1/",
        "http://user:word@example.org/",
        "http://example.org\\@127.0.0.1/",
        "http://example.org\\.127.0.0.1/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://",
    ],
)
def test_tricks_with_users_backslashes_and_schemes_are_refused_before_anything_is_sent(url: str):
    with pytest.raises(NotSent):
        checked_target(url)


async def test_an_agent_that_is_told_so_reaches_only_what_is_public(service: HttpService):
    app = App("guarded")
    open_agent = app.http_agent("open", service.url)
    closed_agent = app.http_agent("closed", service.url, outbound=read_outbound("", name="outbound"))

    assert (await open_agent.get("/")).status == 200
    with pytest.raises(HttpUnavailable, match="is not public"):
        await closed_agent.get("/")


async def test_an_agent_connects_to_the_address_that_was_checked(service: HttpService, names: Rebinding):
    agent = App("guarded").http_agent(
        "hooks", f"http://rebind.test:{service.port}", outbound=Outbound((LOCAL,))
    )

    first = await agent.get("/")
    with pytest.raises(HttpUnavailable, match="is not public"):
        await agent.get("/")

    assert first.status == 200
    assert names.asked == 2
    assert len(service.asked) == 1
