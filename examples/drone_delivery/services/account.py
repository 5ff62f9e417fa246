"""Accounts: whether a customer may order, and what customers were told. One that nobody told us about may."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec
from starlette.responses import Response

from drone_delivery.entities import Notice
from drone_delivery.services.records import Kept, find, keep
from drone_delivery.services.resources import (
    Call,
    Operation,
    Resource,
    Service,
    check_same_id,
    not_found,
)
from drone_delivery.wire import json, nothing

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS notice (
    delivery_id TEXT PRIMARY KEY,
    content TEXT NOT NULL  -- JSON
) STRICT;
"""

_NOTIFY: Final = """
INSERT INTO notice (delivery_id, content) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING delivery_id
"""

_NOTICE: Final = "SELECT content FROM notice WHERE delivery_id = ?"


def is_active(call: Call[None]) -> Response:
    account = find(call.file, call.id)
    return json(account is None or account.read(bool))


def set_active(call: Call[bool]) -> Response:
    kept = keep(call.file, call.id, content=call.body)
    return nothing(HTTPStatus.CREATED if kept is Kept.NEW else HTTPStatus.NO_CONTENT)


def put_notice(call: Call[Notice]) -> Response:
    """One for a delivery, however often it comes; the first is the one that was read."""
    check_same_id(call, "deliveryId", value=call.body.delivery_id)
    rows = call.file.execute(_NOTIFY, (call.id, msgspec.json.encode(call.body).decode()))
    return nothing(HTTPStatus.CREATED if rows else HTTPStatus.NO_CONTENT)


def get_notice(call: Call[None]) -> Response:
    for (content,) in call.file.execute(_NOTICE, (call.id,)):
        return json(msgspec.json.decode(content, type=Notice))
    return not_found("notice of delivery", call.id)


ACCOUNT: Final = Service(
    name="account",
    schema=_SCHEMA,
    resources=(
        Resource("/api/account/{id}", {"GET": Operation(is_active), "PUT": Operation(set_active, bool)}),
        Resource("/api/notices/{id}", {"GET": Operation(get_notice), "PUT": Operation(put_notice, Notice)}),
    ),
)
