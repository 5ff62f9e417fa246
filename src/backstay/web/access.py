"""Who is let in: the rules, and the guard that asks them before anything else looks at a request.

Without a token in the store, whoever is on this machine may do everything, and nobody else anything.
A browser on this machine runs pages of strangers: it is known by the names in ``Host`` and ``Origin``.
With the first token the door is locked for good: everybody shows one, and may do what its role says.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import re
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from backstay.clock import Clock
from backstay.domain.access import Role, Token, digest_of
from backstay.web.problems import FORBIDDEN, TOO_MANY_GUESSES, UNAUTHORIZED, Refused
from backstay.web.sampled import Sampled

GUESSES_MAX: Final = 20
GUESSES_WITHIN_SECONDS: Final = 10.0
ADDRESSES_MAX: Final = 10_000
TOKENS_KEPT_SECONDS: Final = 1.0

_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
_HOST: Final = re.compile(r"(?P<name>localhost|[0-9.]+|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/=-]+)", re.IGNORECASE)
_LOOKED_AT: Final = frozenset({b"host", b"origin", b"sec-fetch-site", b"authorization"})
_OWN_SITE: Final = frozenset({"same-origin", "none"})


class Caller(msgspec.Struct, frozen=True):
    """Who asks, as the audit trail will name them, and what they may do: nothing without a role."""

    name: str
    role: Role | None

    def check_may(self, needed: Role | None) -> None:
        """Raise unless the caller has the rights of ``needed``."""
        if needed is None or (self.role is not None and self.role.includes(needed)):
            return
        raise Refused(
            FORBIDDEN,
            f"this needs the role {needed}; {self.name} has {self.role}: use a token with that role",
        )


ANYBODY: Final = Caller("anybody", None)
LOOPBACK: Final = Caller("loopback", Role.ADMIN)


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules look at. A header that may come once is all that was sent under its name."""

    method: str
    # As it came, with nothing decoded: a rule must not see another path than the router.
    path: str
    address: str | None
    host: Sequence[str] = ()
    origin: Sequence[str] = ()
    fetch_site: Sequence[str] = ()
    authorization: Sequence[str] = ()


def check_local(visitor: Visitor) -> None:
    """Raise unless a program of this machine asks, or a page that this server gave to a browser on it."""
    if not is_loopback(visitor.address):
        raise Refused(
            FORBIDDEN,
            "without a token only this machine is served; create one with `backstay tokens create`",
        )
    if len(visitor.host) != 1 or not _names_this_machine(visitor.host[0]):
        raise Refused(
            FORBIDDEN, "the Host header must name this machine: localhost, 127.0.0.1 or [::1], with any port"
        )
    if not _is_own_origin(visitor):
        raise Refused(FORBIDDEN, "pages of another origin may ask nothing here; leave Origin out")
    check_own_pages(visitor)


def check_own_pages(visitor: Visitor) -> None:
    """Raise if a browser asks for a change on behalf of a page that is not of this server."""
    if visitor.method in _SAFE_METHODS:
        return
    # A browser that says which site the page is of is believed before one that names its origin: a proxy
    # in between may have another name than the server.
    is_own = _OWN_SITE.issuperset(visitor.fetch_site) if visitor.fetch_site else _is_own_origin(visitor)
    if not is_own:
        raise Refused(FORBIDDEN, "pages of another site may change nothing here")


def secret_in(authorization: Sequence[str]) -> str | None:
    """The secret of the one Authorization header, if it has the form of one."""
    match = _BEARER.fullmatch(authorization[0]) if len(authorization) == 1 else None
    return match and match[1]


def holder_of(secret: str, tokens: Collection[Token]) -> Token | None:
    """The live token of this secret. Every one is compared: how long it takes tells nothing."""
    digest = digest_of(secret)
    found = None
    for token in tokens:
        if hmac.compare_digest(token.digest, digest) and token.revoked_at is None:
            found = token
    return found


def caller_of(visitor: Visitor, tokens: Collection[Token]) -> Caller | None:
    """Who asks, as far as ``tokens`` tell; None for whoever shows a secret that is none of theirs.

    Raises Refused for whoever has nothing to show.
    """
    if not tokens:
        check_local(visitor)
        return LOOPBACK
    secret = secret_in(visitor.authorization)
    if secret is None:
        raise _unauthorized("send the header `Authorization: Bearer …` with a token of this store")
    token = holder_of(secret, tokens)
    return None if token is None else as_caller(token)


def is_allowed(visitor: Visitor, tokens: Collection[Token], needed: Role | None) -> bool:
    """Whether the guard would let ``visitor`` do what needs the role ``needed``."""
    try:
        caller = caller_of(visitor, tokens)
        if caller is not None:
            caller.check_may(needed)
    except Refused:
        return False
    return caller is not None


def is_still_let_in(caller: Caller, tokens: Collection[Token]) -> bool:
    """Whether ``caller``, who was let in some time ago, would be let in by ``tokens`` as well."""
    if caller == LOOPBACK:
        return not tokens
    return any(as_caller(token) == caller and token.revoked_at is None for token in tokens)


def as_caller(token: Token) -> Caller:
    """Whoever holds ``token``."""
    return Caller(f"token:{token.name}", token.role)


# One who asks often comes from one address, and taking it apart costs as much as all the other rules.
@lru_cache(maxsize=ADDRESSES_MAX)
def is_loopback(address: str | None) -> bool:
    """Whether ``address`` is one that only this machine can reach; a name is none."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def is_this_machine(host: str) -> bool:
    """Whether ``host``, a name or an address, is one that only this machine can reach."""
    return host.lower() == "localhost" or is_loopback(host)


def _names_this_machine(host: str) -> bool:
    match = _HOST.fullmatch(host)
    return match is not None and is_this_machine(match["name"].strip("[]"))


def _is_own_origin(visitor: Visitor) -> bool:
    host = visitor.host[0] if len(visitor.host) == 1 else ""
    return all(_is_same(origin, host) for origin in visitor.origin)


def _is_same(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


class Guesses:
    """How often which address came with a wrong token lately. Forgets the oldest when there are too many."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_address: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raise when the address guessed too often."""
        guesses = self._by_address.get(address, ())
        since = self._clock.monotonic() - GUESSES_WITHIN_SECONDS
        recent = [at for at in guesses if at > since]
        if len(recent) >= GUESSES_MAX:
            wait = math.ceil(recent[0] - since) or 1
            raise Refused(
                TOO_MANY_GUESSES,
                f"{GUESSES_MAX} wrong tokens within {GUESSES_WITHIN_SECONDS:.0f} s;"
                f" try again in {wait} s with the right one",
                headers={"Retry-After": str(wait)},
            )

    def count(self, address: str) -> None:
        self._by_address.setdefault(address, deque(maxlen=GUESSES_MAX)).append(self._clock.monotonic())
        self._by_address.move_to_end(address)
        if len(self._by_address) > ADDRESSES_MAX:
            self._by_address.popitem(last=False)


Keyring = Sampled[list[Token]]


def keyring(read: Callable[[], Awaitable[list[Token]]], clock: Clock) -> Keyring:
    """The tokens in the store, as they were a moment ago at most."""
    return Sampled(read, seconds=TOKENS_KEPT_SECONDS, clock=clock)


class Guard:
    """Lets a request pass with its caller in ``scope["state"]``, or refuses it."""

    def __init__(
        self, inner: ASGIApp, keyring: Keyring, guesses: Guesses, *, open_paths: Collection[str]
    ) -> None:
        self._inner = inner
        self._keyring = keyring
        self._guesses = guesses
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope.setdefault("state", {})["caller"] = await self._caller(visitor_of(scope))
        await self._inner(scope, receive, send)

    async def _caller(self, visitor: Visitor) -> Caller:
        # Before the tokens are read: how a process stands is asked when its store is away as well.
        if visitor.path in self._open_paths and visitor.method in _SAFE_METHODS:
            return ANYBODY
        return let_in(visitor, await self._keyring.get(), self._guesses)


def let_in(visitor: Visitor, tokens: Collection[Token], guesses: Guesses) -> Caller:
    """Who asks. Raises Refused for whoever is not let in; who tries one token after another is told so."""
    caller = caller_of(visitor, tokens)
    if caller is None:
        raise guessed_wrong(visitor, guesses)
    return caller


def guessed_wrong(visitor: Visitor, guesses: Guesses) -> Refused:
    """What whoever came with a wrong token is told. Raises Refused when that was once too often."""
    # Only now: behind one address there may be many, and a wrong token locks out no right one.
    guesses.check(visitor.address or "")
    guesses.count(visitor.address or "")
    return _unauthorized("this token opens nothing here; `backstay tokens ls` lists those that do")


def _unauthorized(detail: str) -> Refused:
    return Refused(UNAUTHORIZED, detail, headers={"WWW-Authenticate": "Bearer"})


def visitor_of(scope: Scope) -> Visitor:
    """What the rules look at, in a request."""
    given: dict[bytes, list[str]] = {}
    for name, value in scope["headers"]:
        if name in _LOOKED_AT:
            given.setdefault(name, []).append(value.decode("latin-1"))
    return Visitor(
        method=scope["method"],
        path=scope["raw_path"].decode("latin-1"),
        address=scope["client"][0] if scope.get("client") else None,
        host=given.get(b"host", ()),
        origin=given.get(b"origin", ()),
        fetch_site=given.get(b"sec-fetch-site", ()),
        authorization=given.get(b"authorization", ()),
    )
