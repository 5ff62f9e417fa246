"""Alerts, the audit trail and tokens over HTTP."""

from __future__ import annotations

import msgspec

from backstay.api.calls import Call, Nothing
from backstay.api.shapes import Because, Cursor, Id, Limit, NamePath, Number
from backstay.domain.access import Role
from backstay.domain.alert import Alert
from backstay.domain.audit import Entry
from backstay.store.records import AlertFilter, AuditFilter
from backstay.views import CreatedToken, Page, TokenView


class AlertPath(msgspec.Struct, frozen=True):
    id: Number


class AlertQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    open: bool = False
    limit: Limit = 100
    cursor: Cursor | None = None


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    # As in `task:delivery-17`, `agent:drone`.
    target: str | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token to be made."""

    name: Id
    role: Role


async def list_alerts(call: Call[Nothing, AlertQuery, Nothing]) -> Page[Alert]:
    wanted = call.query
    return await call.client.alerts(
        AlertFilter(open_only=wanted.open, before=wanted.cursor, limit=wanted.limit)
    )


async def acknowledge_alert(call: Call[AlertPath, Nothing, Because]) -> Alert:
    return await call.client.acknowledge(call.path.id, reason=call.body.reason)


async def list_audit(call: Call[Nothing, AuditQuery, Nothing]) -> Page[Entry]:
    wanted = call.query
    return await call.client.audit(
        AuditFilter(target=wanted.target, before=wanted.cursor, limit=wanted.limit)
    )


async def list_tokens(call: Call[Nothing, Nothing, Nothing]) -> Page[TokenView]:
    return Page(await call.client.tokens())


async def create_token(call: Call[Nothing, Nothing, NewToken]) -> CreatedToken:
    secret = await call.client.create_token(call.body.name, call.body.role)
    call.service.keyring.forget()
    return CreatedToken(secret, call.body.name, call.body.role)


async def revoke_token(call: Call[NamePath, Nothing, Nothing]) -> None:
    await call.client.revoke_token(call.path.name)
    call.service.keyring.forget()
