"""Tokens are asked for once, kept while they hold, and are nothing but what may stand in a header."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backstay.jobs.http_request import NotSent
from backstay.jobs.oauth import (
    KEPT_SECONDS_MAX,
    MARGIN_SECONDS,
    TOKENS_MAX,
    Grant,
    Tokens,
    read_token,
    token_url,
)

AUTHORITY = "https://login.example"


def grant(**more: str) -> Grant:
    return Grant(**{"tenant": "t", "audience": "a", "client_id": "c", "secret": "hunter2", **more})


class Authority:
    """Gives another token each time; time is turned by hand."""

    def __init__(self, **answer: Any) -> None:
        self.answer = {"expires_in": "3600", **answer}
        self.asked: list[tuple[str, bytes]] = []
        self.seconds = 0.0
        self.tokens = Tokens(AUTHORITY, self.ask, monotonic=lambda: self.seconds)

    async def ask(self, url: str, form: bytes) -> tuple[int, bytes]:
        self.asked.append((url, form))
        return 200, json.dumps({"access_token": f"t{len(self.asked)}", **self.answer}).encode()


@pytest.mark.parametrize("tenant", ["", "..", "a/b", "a?b", "a#b", "a%2fb", "a@b", "a:b", "a\r\nb"])
def test_a_tenant_that_would_lead_elsewhere_is_not_asked(tenant: str):
    with pytest.raises(NotSent, match=r"no token came from 'login\.example': The tenant is none"):
        token_url(AUTHORITY, tenant)


def body(token: Any = "t0ken", **more: Any) -> bytes:
    return json.dumps({"access_token": token, "expires_in": 60, **more}).encode()


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (401, body()),
        (200, b"leak"),
        (200, b"[]"),
        (200, b'"t0ken"'),
        (200, b"[" * 60_000),
        (200, body("")),
        (200, body(7)),
        (200, body("a b")),
        (200, body("a\r\nX-Evil: 1")),
        (200, body("ü")),
        (200, body("x" * 16_385)),
        (200, body(expires_in="soon")),
        (200, body(expires_in=[])),
        (200, body(expires_in=10**400)),
    ],
)
def test_what_is_no_token_is_none(status: int, answer: bytes):
    assert read_token(status, answer) is None


async def test_a_token_is_used_until_shortly_before_it_expires():
    authority = Authority()

    first = await authority.tokens.token(grant())
    authority.seconds = 3600 - MARGIN_SECONDS - 1
    again = await authority.tokens.token(grant())
    authority.seconds += 1
    late = await authority.tokens.token(grant())

    assert (first, again, late) == ("t1", "t1", "t2")


@pytest.mark.parametrize(
    ("expires_in", "kept_for"), [(MARGIN_SECONDS, 0), ("NaN", 0), ("inf", KEPT_SECONDS_MAX)]
)
async def test_no_token_is_kept_for_ever_and_none_that_is_about_to_expire(expires_in: Any, kept_for: float):
    authority = Authority(expires_in=expires_in)

    await authority.tokens.token(grant())
    authority.seconds = kept_for
    await authority.tokens.token(grant())

    assert len(authority.asked) == 2


async def test_who_has_another_secret_is_given_another_token():
    authority = Authority()

    tokens = [
        await authority.tokens.token(grant(secret=secret)) for secret in ("hunter2", "other", "hunter2")
    ]

    assert tokens == ["t1", "t2", "t1"]


async def test_one_that_was_refused_is_forgotten_but_not_one_that_came_since():
    authority = Authority()
    first = await authority.tokens.token(grant())

    authority.tokens.forget(grant(), first)
    second = await authority.tokens.token(grant())
    authority.tokens.forget(grant(), first)

    assert (first, second, await authority.tokens.token(grant())) == ("t1", "t2", "t2")


async def test_of_many_only_the_last_ones_are_kept():
    authority = Authority()
    for number in range(TOKENS_MAX + 1):
        await authority.tokens.token(grant(client_id=str(number)))

    await authority.tokens.token(grant(client_id="1"))
    assert len(authority.asked) == TOKENS_MAX + 1
    await authority.tokens.token(grant(client_id="0"))
    assert len(authority.asked) == TOKENS_MAX + 2


def test_a_secret_is_not_shown_with_the_rest():
    assert "hunter2" not in repr(grant())
    assert "hunter2" not in str(grant().key)
