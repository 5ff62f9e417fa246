"""Accounts: whether a customer may order. One that nobody told us about may."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from drone_delivery.services.records import Kept, find, keep
from drone_delivery.services.resources import Call, Operation, Resource, Service
from drone_delivery.wire import json, nothing


def is_active(call: Call[None]) -> Response:
    account = find(call.file, call.id)
    return json(account is None or account.read(bool))


def set_active(call: Call[bool]) -> Response:
    kept = keep(call.file, call.id, content=call.body)
    return nothing(HTTPStatus.CREATED if kept is Kept.NEW else HTTPStatus.NO_CONTENT)


ACCOUNT: Final = Service(
    name="account",
    resources=(
        Resource("/api/account/{id}", {"GET": Operation(is_active), "PUT": Operation(set_active, bool)}),
    ),
)
