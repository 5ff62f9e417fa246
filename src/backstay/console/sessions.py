"""Who is signed in: a cookie that says so, and that nobody else could have written.

A session names a token of the store and an end; it holds nothing of the token's secret. It is authenticated
with a key that is derived from the one that seals secrets of jobs: the same for every process that has that
one, and not in the store. Where there is no such key each process makes one, and its sessions end with it.

The token's digest is authenticated along: a session opens nothing once its token is revoked or another.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final

import msgspec

from backstay.clock import Clock
from backstay.domain.access import Token
from backstay.errors import SecretKeyMissing
from backstay.vault import Vault

SESSION_LENGTH: Final = timedelta(hours=12)

#: Longer than any that we write.
_COOKIE_LENGTH_MAX: Final = 1_000
_KEY_BYTES: Final = 32
_PURPOSE: Final = b"backstay console session"
#: The name of nobody: of who has yet to sign in, and of who needs no token.
_NOBODY: Final = ""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """What the cookie says."""

    token: str
    until: int
    # No two are the same, so that what is derived from one is good for no other.
    nonce: str


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is in force, and its token, if somebody is signed in."""

    cookie: str
    holder: Token | None


def shared_key(vault: Vault) -> Callable[[], bytes]:
    """The key of every process that seals secrets of jobs with the same one; else one of this process."""
    own = secrets.token_bytes(_KEY_BYTES)

    def key() -> bytes:
        try:
            return hmac.digest(vault.sealing_key().material, _PURPOSE, "sha256")
        except SecretKeyMissing:
            return own

    return key


def own_key() -> Callable[[], bytes]:
    """A key of this process: nothing is made, or read, for it."""
    own = secrets.token_bytes(_KEY_BYTES)
    return lambda: own


class Sessions:
    """Begins sessions, and opens those that any process with the same key began."""

    def __init__(self, key: Callable[[], bytes], clock: Clock) -> None:
        self._key = key
        self._clock = clock

    def begin(self, holder: Token | None) -> Opened:
        """A new session for the holder of a token, or for nobody."""
        session = Session(
            token=_NOBODY if holder is None else holder.name,
            until=int((self._clock.now() + SESSION_LENGTH).timestamp()),
            nonce=secrets.token_urlsafe(16),
        )
        payload = _text(msgspec.json.encode(session))
        return Opened(cookie=f"{payload}.{self._mark(payload, holder)}", holder=holder)

    def opened(self, cookie: str | None, tokens: Iterable[Token]) -> Opened | None:
        """The session of this cookie; None for one that is over, forged, or whose token is revoked."""
        if cookie is None or len(cookie) > _COOKIE_LENGTH_MAX:
            return None
        payload, _, mark = cookie.partition(".")
        try:
            session = msgspec.json.decode(_bytes(payload), type=Session)
        except (ValueError, msgspec.DecodeError):
            return None
        holder = _holder(session, tokens)
        is_ours = hmac.compare_digest(mark.encode(), self._mark(payload, holder).encode())
        if not is_ours or session.until <= self._clock.now().timestamp():
            return None
        if session.token != _NOBODY and holder is None:
            return None
        return Opened(cookie=cookie, holder=holder)

    def proof(self, cookie: str) -> str:
        """What a form of this session shows, and no page of anybody else can know."""
        return _text(self._digest(b"proof", cookie.encode()))

    def proves(self, cookie: str, proof: str) -> bool:
        return hmac.compare_digest(self.proof(cookie).encode(), proof.encode())

    def _mark(self, payload: str, holder: Token | None) -> str:
        digest = "" if holder is None else holder.digest
        return _text(self._digest(b"session", f"{payload}.{digest}".encode()))

    def _digest(self, use: bytes, what: bytes) -> bytes:
        return hmac.digest(self._key(), use + b"\0" + what, "sha256")


def _holder(session: Session, tokens: Iterable[Token]) -> Token | None:
    live = (token for token in tokens if token.revoked_at is None)
    return next((token for token in live if token.name == session.token), None)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
