"""Requests of jobs that would reach what is not public: none leaves, however the address is written."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from backstay import App, Outbound
from backstay.domain.jobs.messages import ADDRESS_REFUSED
from backstay.domain.outbound import read_outbound
from backstay.errors import HttpUnavailable
from backstay.jobs.http_action import HttpAction
from backstay.jobs.http_request import HttpRequest, NotSent, checked_target
from backstay.jobs.tried import Tried
from tests.support.service import HttpService, says

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


class Rebinding:
    """A name server that answers the first question with one address and the others with another."""

    def __init__(self, first: str, then: str) -> None:
        self.answers = iter([first])
        self.then = then
        self.asked = 0

    def __call__(self, host: Any, port: Any, *rest: Any, **named: Any) -> list[Any]:
        self.asked += 1
        address = next(self.answers, self.then)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(port or 0)))]


@pytest.fixture
def rebinding(monkeypatch: pytest.MonkeyPatch) -> Rebinding:
    names = Rebinding(LOCAL, OTHER)
    monkeypatch.setattr(socket, "getaddrinfo", names)
    return names


async def test_a_name_that_changes_its_mind_is_checked_again_at_every_connection(
    only_local: HttpAction, service: HttpService, rebinding: Rebinding
):
    service.answers = [says(200, Connection="close"), says(200)]
    only_local._open_session().connector._use_dns_cache = False  # type: ignore[union-attr]

    first = await ask(only_local, f"http://rebind.test:{service.port}/")
    second = await ask(only_local, f"http://rebind.test:{service.port}/")

    assert first.succeeded
    assert ADDRESS_REFUSED in second.message
    assert rebinding.asked == 2
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
