"""The rules of who is let in, without a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from backstay.domain.access import Role, Token, digest_of
from backstay.testing import ManualClock
from backstay.web import access
from backstay.web.access import (
    Caller,
    Guesses,
    Visitor,
    check_local,
    holder_of,
    is_this_machine,
    secret_in,
)
from backstay.web.problems import FORBIDDEN, TOO_MANY_GUESSES, Refused
from backstay.web.sampled import Sampled

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LOCAL: dict[str, Any] = {
    "method": "POST",
    "path": "/v1/tasks",
    "address": "127.0.0.1",
    "host": ["localhost:8080"],
}


def token(name: str, secret: str, *, revoked: bool = False) -> Token:
    return Token(
        name=name,
        role=Role.READ,
        digest=digest_of(secret),
        created_at=NOW,
        revoked_at=NOW if revoked else None,
    )


# On this machine


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_whoever_is_on_this_machine_is_let_in(address: str):
    check_local(Visitor(**{**LOCAL, "address": address}))


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "0.0.0.0", "::", "::ffff:10.0.0.1", "8.8.8.8", "localhost", "", None]
)
def test_nobody_else_is(address: str | None):
    with pytest.raises(Refused, match="only this machine is served") as refused:
        check_local(Visitor(**{**LOCAL, "address": address}))
    assert refused.value.kind is FORBIDDEN


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_where_only_this_machine_reaches_needs_no_token(host: str):
    assert is_this_machine(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.evil", "[::1]"])
def test_anywhere_else_does(host: str):
    assert not is_this_machine(host)


@pytest.mark.parametrize("host", [[], ["localhost", "localhost"], ["evil.example"], ["localhost.evil"]])
def test_the_host_must_be_one_name_of_this_machine(host: list[str]):
    with pytest.raises(Refused, match="the Host header must name this machine"):
        check_local(Visitor(**{**LOCAL, "host": host}))


@pytest.mark.parametrize(
    ("origin", "may"),
    [
        (["http://localhost:8080"], True),
        (["https://LOCALHOST:8080"], True),
        (["http://localhost"], False),
        (["http://localhost:8081"], False),
        (["http://evil.example"], False),
        (["http://localhost:8080", "http://evil.example"], False),
        (["http://localhost:8080@evil.example"], False),
        (["http://evil.example/localhost:8080"], False),
        (["null"], False),
        ([""], False),
        (["ftp://localhost:8080"], False),
    ],
)
def test_only_pages_of_this_server_may_ask(origin: list[str], may: bool):
    visitor = Visitor(**{**LOCAL, "origin": origin})

    if may:
        check_local(visitor)
    else:
        with pytest.raises(Refused, match="another origin"):
            check_local(visitor)


# With a token


@pytest.mark.parametrize(
    ("headers", "secret"),
    [
        (["Bearer abc"], "abc"),
        (["bearer  a-b._~+/="], "a-b._~+/="),
        ([], None),
        (["abc"], None),
        (["Bearer"], None),
        (["Bearer a b"], None),
        (["Bearer abc", "Bearer abc"], None),
        (["Basic abc"], None),
        (["Bearer abc\n"], None),
    ],
)
def test_a_secret_comes_in_one_form_only(headers: list[str], secret: str | None):
    assert secret_in(headers) == secret


def test_a_secret_opens_as_the_token_that_it_belongs_to():
    tokens = [token("a", "one"), token("b", "two"), token("c", "three", revoked=True)]

    found = holder_of("two", tokens)

    assert found is tokens[1]
    assert holder_of("three", tokens) is None
    assert holder_of("four", tokens) is None
    assert holder_of("two", []) is None


def test_every_token_is_compared_whichever_fits(monkeypatch: pytest.MonkeyPatch):
    compared: list[str] = []

    def compare(known: str, given: str) -> bool:
        compared.append(known)
        return known == given

    monkeypatch.setattr("backstay.web.access.hmac.compare_digest", compare)
    tokens = [token("a", "one"), token("b", "two", revoked=True), token("c", "three")]

    for secret in ("one", "three", "wrong"):
        compared.clear()
        holder_of(secret, tokens)
        assert compared == [one.digest for one in tokens]


@pytest.mark.parametrize("has", Role)
@pytest.mark.parametrize("needed", Role)
def test_a_role_has_the_rights_of_those_before_it(has: Role, needed: Role):
    roles = list(Role)

    if roles.index(has) >= roles.index(needed):
        Caller("token:me", has).check_may(needed)
    else:
        with pytest.raises(Refused, match=f"needs the role {needed}; token:me has {has}"):
            Caller("token:me", has).check_may(needed)


def test_who_has_no_role_may_only_what_everybody_may():
    Caller("anybody", None).check_may(None)
    with pytest.raises(Refused):
        Caller("anybody", None).check_may(Role.READ)


# Guessing


def guess(guesses: Guesses, address: str, times: int) -> None:
    for _ in range(times):
        guesses.check(address)
        guesses.count(address)


def test_who_guesses_too_often_waits_until_the_first_guess_is_old():
    clock = ManualClock()
    guesses = Guesses(clock)
    guess(guesses, "1.2.3.4", 5)
    clock.pass_time(timedelta(seconds=4))
    guess(guesses, "1.2.3.4", access.GUESSES_MAX - 5)

    with pytest.raises(Refused) as refused:
        guesses.check("1.2.3.4")
    assert refused.value.kind is TOO_MANY_GUESSES
    assert refused.value.headers == {"Retry-After": "6"}
    guesses.check("4.3.2.1")

    clock.pass_time(timedelta(seconds=6))
    guess(guesses, "1.2.3.4", 5)
    with pytest.raises(Refused):
        guesses.check("1.2.3.4")


def test_only_so_many_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(access, "ADDRESSES_MAX", 3)
    guesses = Guesses(ManualClock())

    guess(guesses, "oldest", access.GUESSES_MAX)
    for address in ("b", "c", "d"):
        guess(guesses, address, 1)

    guesses.check("oldest")
    assert len(guesses._by_address) == 3


# The tokens, as they were a moment ago


async def test_what_is_sampled_is_read_once_for_all_who_ask_within_its_time():
    clock, reads = ManualClock(), 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        return reads

    sampled = Sampled(read, seconds=1, clock=clock)

    assert [await sampled.get() for _ in range(3)] == [1, 1, 1]
    clock.pass_time(timedelta(seconds=0.99))
    assert await sampled.get() == 1
    clock.pass_time(timedelta(seconds=0.01))
    assert await sampled.get() == 2
    sampled.forget()
    assert await sampled.get() == 3
