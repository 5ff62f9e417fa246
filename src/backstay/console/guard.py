"""Who is let in to the pages: the rules of the HTTP interface, and sessions beside its tokens.

A cookie comes with whatever a browser asks for, whoever made it ask. So what changes something is refused
to pages of another site, and to whoever does not show the proof that only pages of the session hold.
"""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request

from backstay.console.cookies import cookie_name
from backstay.console.sessions import Opened, Sessions, own_key, shared_key
from backstay.vault import Vault
from backstay.web.access import (
    LOOPBACK,
    Caller,
    as_caller,
    check_local,
    check_own_pages,
    guessed_wrong,
    holder_of,
    let_in,
    visitor_of,
)
from backstay.web.common import Common
from backstay.web.problems import FORBIDDEN, Refused

#: Where a form shows that it is ours.
PROOF: Final = "proof"


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for a page: nobody, as long as somebody has to sign in."""

    caller: Caller | None
    session: Opened
    # What the browser is told to keep; None: it has it already.
    new_cookie: str | None = None
    #: Whether there are tokens to sign in with.
    guarded: bool


class Guard:
    """Finds out who asks, and refuses who may not even ask."""

    def __init__(self, common: Common, vault: Vault) -> None:
        clock = common.ports.clock
        self._keyring = common.keyring
        self._guesses = common.guesses
        self._local = Sessions(own_key(), clock)
        self._guarded = Sessions(shared_key(vault), clock)

    async def visitor(self, request: Request) -> Visitor:
        """Raises Refused."""
        tokens = await self._keyring.get()
        shown = visitor_of(request.scope)
        sessions = self._guarded if tokens else self._local
        opened = sessions.opened(request.cookies.get(cookie_name(request.scope)), tokens)
        session = opened or sessions.begin(None)
        if not tokens:
            check_local(shown)
            caller: Caller | None = LOOPBACK
        else:
            check_own_pages(shown)
            caller = as_caller(session.holder) if session.holder else None
            if caller is None and shown.authorization:
                caller = let_in(shown, tokens, self._guesses)
        return Visitor(
            caller=caller,
            session=session,
            new_cookie=None if opened else session.cookie,
            guarded=bool(tokens),
        )

    def proof(self, visitor: Visitor) -> str:
        return self._sessions(visitor).proof(visitor.session.cookie)

    def check_proof(self, visitor: Visitor, proof: str) -> None:
        """Raises Refused for a form that no page of this session has."""
        # Who was given a new session with this very request cannot have a proof of it.
        if visitor.new_cookie is not None or not self._sessions(visitor).proves(
            visitor.session.cookie, proof
        ):
            raise Refused(FORBIDDEN, "this form is not of your session, or too old; load the page again")

    async def signed_in(self, secret: str, request: Request) -> Opened:
        """A session for the holder of this token. Raises Refused for a wrong one."""
        holder = holder_of(secret, await self._keyring.get())
        if holder is None:
            raise guessed_wrong(visitor_of(request.scope), self._guesses)
        return self._guarded.begin(holder)

    def nobody(self) -> Opened:
        """The session of whoever signed out."""
        return self._guarded.begin(None)

    def _sessions(self, visitor: Visitor) -> Sessions:
        return self._guarded if visitor.guarded else self._local
