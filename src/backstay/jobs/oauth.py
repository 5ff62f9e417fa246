"""Tokens for jobs that authenticate themselves by Active Directory: asked for, kept for a while, forgotten.

How an authority is reached is somebody else's: ``Tokens`` is handed a function that asks.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode
from weakref import WeakValueDictionary

from backstay.domain.jobs.actions import is_tenant
from backstay.domain.jobs.messages import status_name, token_failed
from backstay.jobs.http_request import NotSent, host_of

#: No answer that holds a token is larger.
ANSWER_BYTES_MAX: Final = 64 * 1024
TOKENS_MAX: Final = 1_000
#: A token that expires on its way is of no use; so long before it is not used any more.
MARGIN_SECONDS: Final = 120.0
KEPT_SECONDS_MAX: Final = 24 * 3600.0

# What may stand in a header, and ends no line.
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16384}")

#: Sends a form to an address: the status, and the beginning of the body.
Ask = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token is asked for with."""

    tenant: str
    audience: str
    client_id: str
    secret: str = field(repr=False)

    @property
    def key(self) -> tuple[str, ...]:
        """By which its token is kept; the secret itself is not."""
        digest = hashlib.sha256(self.secret.encode()).hexdigest()
        return self.tenant, self.audience, self.client_id, digest

    @property
    def form(self) -> bytes:
        return urlencode(
            {
                "grant_type": "client_credentials",
                "client_id": self.client_id,
                "client_secret": self.secret,
                "resource": self.audience,
            }
        ).encode()


def token_url(authority: str, tenant: str) -> str:
    """Raises NotSent for a tenant that would lead elsewhere."""
    if not is_tenant(tenant):
        raise NotSent(token_failed(host_of(authority), "The tenant is none"))
    return f"{authority.rstrip('/')}/{tenant}/oauth2/token"


def read_token(status: int, body: bytes) -> tuple[str, float] | None:
    """The token and the seconds for which it holds, or None."""
    if status != HTTPStatus.OK:
        return None
    try:
        said: Any = json.loads(body)
        token = said["access_token"]
        seconds = float(said.get("expires_in", 0))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        return None
    return token, seconds


class Tokens:
    """Those of one process. For one grant it is asked once at a time, and what came is used by all."""

    def __init__(self, authority: str, ask: Ask, *, monotonic: Callable[[], float]) -> None:
        self._authority = authority
        self._ask = ask
        self._monotonic = monotonic
        self._kept: OrderedDict[tuple[str, ...], tuple[str, float]] = OrderedDict()
        self._asking: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()

    async def token(self, grant: Grant) -> str:
        """Raises NotSent where there is none, and whatever asking raises."""
        lock = self._asking.setdefault(grant.key, asyncio.Lock())
        async with lock:
            kept = self._kept.get(grant.key)
            if kept is not None and self._monotonic() < kept[1]:
                return kept[0]
            return await self._asked(grant)

    def forget(self, grant: Grant, token: str) -> None:
        """It was refused. One that came since is kept."""
        if self._kept.get(grant.key, ("", 0.0))[0] == token:
            del self._kept[grant.key]

    async def _asked(self, grant: Grant) -> str:
        began = self._monotonic()
        status, body = await self._ask(token_url(self._authority, grant.tenant), grant.form)
        read = read_token(status, body)
        if read is None:
            reason = "The answer holds no token" if status == HTTPStatus.OK else f"'{status_name(status)}'"
            raise NotSent(token_failed(host_of(self._authority), reason))
        token, seconds = read
        self._kept.pop(grant.key, None)
        # Written so that what is no number is not kept.
        if seconds > MARGIN_SECONDS:
            self._kept[grant.key] = token, began + min(seconds - MARGIN_SECONDS, KEPT_SECONDS_MAX)
        while len(self._kept) > TOKENS_MAX:
            self._kept.popitem(last=False)
        return token
