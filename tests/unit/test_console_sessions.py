"""Sessions: who is signed in, and how anybody could pretend to be."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from datetime import timedelta

import msgspec
import pytest

from backstay.console.sessions import SESSION_LENGTH, Session, Sessions, own_key, shared_key
from backstay.domain.access import Role, Token, digest_of
from backstay.testing import ManualClock
from backstay.vault import Vault

KEY = b64encode(b"a key that every test may know!!").decode()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def me(clock: ManualClock) -> Token:
    return Token(name="me", role=Role.ADMIN, digest=digest_of("secret"), created_at=clock.now())


def test_a_session_names_its_token_and_holds_nothing_of_its_secret(clock: ManualClock, me: Token):
    sessions = Sessions(own_key(), clock)

    begun = sessions.begin(me)

    assert sessions.opened(begun.cookie, [me]) == begun
    assert "secret" not in begun.cookie
    assert me.digest not in begun.cookie


def test_processes_with_the_same_key_know_each_others_sessions_and_others_do_not(
    clock: ManualClock, me: Token
):
    here, there = (Sessions(shared_key(Vault(KEY)), clock) for _ in range(2))
    elsewhere = Sessions(shared_key(Vault()), clock)

    cookie = here.begin(me).cookie

    assert there.opened(cookie, [me]) is not None
    assert there.proves(cookie, here.proof(cookie))
    assert elsewhere.opened(cookie, [me]) is None
    assert not elsewhere.proves(cookie, here.proof(cookie))


def test_a_session_ends_with_its_token_and_with_its_time(clock: ManualClock, me: Token):
    sessions = Sessions(own_key(), clock)
    cookie = sessions.begin(me).cookie
    revoked = msgspec.structs.replace(me, revoked_at=clock.now())
    another = msgspec.structs.replace(me, digest=digest_of("another secret"))

    assert sessions.opened(cookie, [revoked]) is None
    assert sessions.opened(cookie, [another]) is None
    assert sessions.opened(cookie, []) is None
    clock.pass_time(SESSION_LENGTH - timedelta(seconds=2))
    assert sessions.opened(cookie, [me]) is not None
    clock.pass_time(timedelta(seconds=4))
    assert sessions.opened(cookie, [me]) is None


def test_nobody_can_write_a_session_or_make_another_of_one(clock: ManualClock, me: Token):
    sessions = Sessions(own_key(), clock)
    nobody = sessions.begin(None).cookie
    payload, mark = sessions.begin(me).cookie.split(".")
    longer = Session(token="me", until=2**40, nonce="n")
    forged = urlsafe_b64encode(msgspec.json.encode(longer)).decode().rstrip("=")

    for cookie in (
        f"{forged}.{mark}",
        f"{payload}.",
        payload,
        f"{nobody.split('.')[0]}.{mark}",
        "",
        ".",
        "é.é",
    ):
        assert sessions.opened(cookie, [me]) is None
    assert sessions.opened("x" * 5_000, [me]) is None
    assert sessions.opened(None, [me]) is None


def test_the_proof_of_one_session_is_good_for_no_other(clock: ManualClock, me: Token):
    sessions = Sessions(own_key(), clock)
    mine, yours = sessions.begin(me).cookie, sessions.begin(me).cookie

    assert sessions.proves(mine, sessions.proof(mine))
    assert not sessions.proves(mine, sessions.proof(yours))
    assert not sessions.proves(mine, "")
    assert not sessions.proves(mine, "é")
